"""Logins that failed: whoever goes on guessing at a user from one address has to wait.

Kept in the memory of each process, by what was shown, whether there is such a user or not: so the
answers tell nothing about that, and nobody can lock out a user who logs in from elsewhere.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from datetime import datetime, timedelta

from msgspec import Struct

from mooring import limits
from mooring.errors import Unauthenticated

_DOUBLINGS = 16
"""Beyond these a power of two would only grow, as the wait does not: keep it a number."""


class _Series(Struct, frozen=True):
    """Failures in a row, and when the last one was."""

    count: int
    last: datetime

    def free_at(self) -> datetime:
        """Return when the next login is looked at: twice as long after each failure."""
        beyond = self.count - limits.IDENTITY_FREE_FAILURES
        wait_s = 2.0 ** min(beyond, _DOUBLINGS) if beyond >= 0 else 0.0
        return self.last + timedelta(seconds=min(wait_s, limits.IDENTITY_FAILURE_WAIT_S))


class Failures:
    """The failed logins of the last while, by address and by what was shown of the user."""

    def __init__(self) -> None:
        self._series: OrderedDict[bytes, _Series] = OrderedDict()

    def check(self, address: str, user: str, now: datetime) -> None:
        """Raise Unauthenticated, answered 429, when it is too early for the next login."""
        found = self._find(address, user, now)
        wait_s = (found.free_at() - now).total_seconds() if found else 0.0
        if wait_s > 0:
            seconds = max(1, round(wait_s))
            raise Unauthenticated(
                f"Too many logins failed, so this one was not looked at. Try again in {seconds} s.",
                status=429,
                retry_after_s=seconds,
            )

    def note(self, address: str, user: str, now: datetime) -> None:
        """Count a login that failed."""
        found = self._find(address, user, now)
        count = found.count + 1 if found else 1
        key = _key(address, user)
        self._series[key] = _Series(count, now)
        self._series.move_to_end(key)
        while len(self._series) > limits.IDENTITY_FAILURES_KEPT:
            self._series.popitem(last=False)

    def forget(self, address: str, user: str) -> None:
        """Count from the beginning: a login went well."""
        self._series.pop(_key(address, user), None)

    def _find(self, address: str, user: str, now: datetime) -> _Series | None:
        found = self._series.get(_key(address, user))
        kept = timedelta(seconds=limits.IDENTITY_FAILURES_S)
        return found if found is not None and now - found.last < kept else None


def _key(address: str, user: str) -> bytes:
    """Return a key of one length, however long what was shown is."""
    return hashlib.sha256(f"{address}\0{user}".encode("utf-8", "surrogatepass")).digest()
