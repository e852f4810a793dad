"""The identity service: what it owns. It calls nobody."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy.exc import IntegrityError

from mooring import limits
from mooring.errors import Conflict
from mooring.identity.failures import Failures
from mooring.identity.passwords import Hasher

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.clock import Clock
    from mooring.identity.keys import TokenKeys
    from mooring.saga.seal import Sealer
    from mooring.store.base import Store

T = TypeVar("T")


class Identity:
    """Everything that the rules of the identity service work with."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        keys: TokenKeys,
        sealer: Sealer,
        token_lifetime_s: int = 3600,
        hasher: Hasher | None = None,
    ) -> None:
        self.store, self.clock, self.keys, self.sealer = store, clock, keys, sealer
        self.token_lifetime_s = token_lifetime_s
        self.hasher, self.failures = hasher or Hasher(), Failures()
        self.revision = 0
        """Grows with every change this process makes: what was read before may be outdated."""

    def forget_at(self, now: datetime) -> datetime:
        """Return when every token that there is now is worth nothing, with a service's beside."""
        return now + timedelta(seconds=self.token_lifetime_s + limits.IDENTITY_EXPIRED_S)

    async def change(self, fn: Callable[[Session], T]) -> T:
        """Run a write, and let everybody who remembers something read it anew.

        When a constraint is broken because somebody else was faster, it runs once more and sees
        what they did. Raises Conflict when even that does not help.
        """
        try:
            return await self.store.write(fn)
        except IntegrityError:
            return await self._change_again(fn)
        finally:
            self.revision += 1

    async def _change_again(self, fn: Callable[[Session], T]) -> T:
        try:
            return await self.store.write(fn)
        except IntegrityError as error:
            message = "Somebody else changed the same things just now. Look again, then retry."
            raise Conflict(message, private=str(error.orig)) from error
