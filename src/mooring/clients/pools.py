"""Pools of the volume service, ours or a real Cinder, as far as compute has to do with them.

Source: facts/block_storage.md 11.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from mooring import typed
from mooring.clients.volume import BASE_VERSION
from mooring.errors import Unavailable

if TYPE_CHECKING:
    from mooring.clients.session import Caller, Session


class _Capabilities(Struct, frozen=True):
    reached_by: list[str] | None = None
    backend_state: str = "up"


class Pool(Struct, frozen=True):
    """A pool, by its full name, `host@backend#pool`."""

    name: str
    capabilities: _Capabilities = _Capabilities()

    @property
    def reached_by(self) -> list[str] | None:
        """The hosts that may have its volumes; None: every host, as far as is known."""
        return self.capabilities.reached_by

    @property
    def is_up(self) -> bool:
        """Whether new volumes may come to lie there, as far as is known."""
        return self.capabilities.backend_state != "down"


class _Pools(Struct, frozen=True):
    pools: list[Pool]


async def list_pools(session: Session, caller: Caller) -> list[Pool]:
    """Return all pools. Raises Forbidden for whoever is no administrator, Unavailable."""
    path = "/scheduler-stats/get_pools?detail=true"
    answer = await session.request("GET", path, caller=caller, version=BASE_VERSION)
    try:
        return typed.convert(answer.json(), _Pools).pools
    except msgspec.ValidationError as error:
        raise Unavailable(
            "The volume service sent an answer that makes no sense; ask its operator.",
            private=f"GET {path}: {error}",
        ) from error
