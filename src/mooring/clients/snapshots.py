"""Snapshots of the volume service, ours or a real Cinder, as far as compute has to do with them.

Source: facts/block_storage.md 1.8 and 5.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

import msgspec
from msgspec import Struct, field

from mooring import typed
from mooring.clients.volume import VERSION
from mooring.errors import Unavailable

if TYPE_CHECKING:
    from mooring.clients.session import Caller, Session
    from mooring.fence.operation import Operation

Told = Literal["creating", "error", "deleting", "error_deleting"]
"""What compute says of its part: `creating` and `deleting` say that it is done."""

DONE = "90%"
"""The progress that goes with it, whichever it is: the rest is the volume service's."""


class Snapshot(Struct, frozen=True):
    """One snapshot; `progress` is "90%" once compute has done its part."""

    id: str
    status: str
    volume_id: str = ""
    progress: str | None = field(name="os-extended-snapshot-attributes:progress", default=None)

    @property
    def is_accepted(self) -> bool:
        """Whether the volume service goes on with the new file, and nothing changes its mind.

        Ours says so by a progress beyond compute's, which stays whatever becomes of the snapshot;
        a Cinder by making it available.
        """
        is_open = self.status == "creating" or self.status.startswith("error")
        return not is_open or _percent(self.progress) > _percent(DONE)


def _percent(text: str | None) -> int:
    number = (text or "").removesuffix("%")
    return int(number) if number.isdecimal() else 0


class SnapshotClient:
    """Calls about snapshots; each raises one of the nine kinds of `mooring.errors`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def show(self, caller: Caller, snapshot_id: str) -> Snapshot:
        """Return one snapshot. Raises NotFound."""
        path = f"/snapshots/{quote(snapshot_id, safe='')}"
        answer = await self._session.request("GET", path, caller=caller, version=VERSION)
        try:
            return typed.convert(answer.json()["snapshot"], Snapshot)
        except (KeyError, TypeError, msgspec.ValidationError) as error:
            raise Unavailable(
                "The volume service sent an answer that makes no sense; ask its operator.",
                private=f"GET {path}: {error}",
            ) from error

    async def tell(
        self,
        caller: Caller,
        snapshot_id: str,
        status: Told,
        *,
        operation: Operation | None = None,
    ) -> None:
        """Tell how compute's part ended. Raises Invalid when nobody waits for that, NotFound."""
        path = f"/snapshots/{quote(snapshot_id, safe='')}/action"
        body = {"os-update_snapshot_status": {"status": status, "progress": DONE}}
        await self._session.request(
            "POST", path, caller=caller, json=body, version=VERSION, operation=operation
        )
