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
    """The failed logins of the last while, by address and by what was shown of the user.

    All addresses together have one bound. Beyond it goes the oldest of the address that has most,
    so that whoever fails with ever other names forgets his own failures and nobody else's.
    """

    def __init__(self) -> None:
        self._addresses: OrderedDict[bytes, OrderedDict[bytes, _Series]] = OrderedDict()
        """The address that failed last comes last, and so does the user within it."""
        self._kept = 0

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
        series = self._addresses.setdefault(_key(address), OrderedDict())
        self._kept += _key(user) not in series
        series[_key(user)] = _Series(found.count + 1 if found else 1, now)
        series.move_to_end(_key(user))
        self._addresses.move_to_end(_key(address))
        self._drop_old(now)
        while self._kept > limits.IDENTITY_FAILURES_KEPT:
            # Of those that have equally many the one that failed longest ago.
            most = max(self._addresses, key=lambda each: len(self._addresses[each]))
            self._drop(most, next(iter(self._addresses[most])))

    def forget(self, address: str, user: str) -> None:
        """Count from the beginning: a login went well."""
        self._drop(_key(address), _key(user))

    def _drop_old(self, now: datetime) -> None:
        """Drop the addresses of which nothing counts any more; they come first."""
        while self._addresses:
            address, series = next(iter(self._addresses.items()))
            if _counts(series[next(reversed(series))], now):
                return
            self._kept -= len(series)
            del self._addresses[address]

    def _drop(self, address: bytes, user: bytes) -> None:
        series = self._addresses.get(address, OrderedDict())
        if series.pop(user, None) is not None:
            self._kept -= 1
        if not series:
            self._addresses.pop(address, None)

    def _find(self, address: str, user: str, now: datetime) -> _Series | None:
        series = self._addresses.get(_key(address))
        found = series.get(_key(user)) if series is not None else None
        return found if found is not None and _counts(found, now) else None


def _counts(series: _Series, now: datetime) -> bool:
    return now - series.last < timedelta(seconds=limits.IDENTITY_FAILURES_S)


def _key(shown: str) -> bytes:
    """Return a key of one length, however long what was shown is."""
    return hashlib.sha256(shown.encode("utf-8", "surrogatepass")).digest()
