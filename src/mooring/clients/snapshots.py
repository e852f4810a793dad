"""Snapshots of the volume service, ours or a real Cinder, as far as compute has to do with them.

Source: facts/block_storage.md 1.8 and 5.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct, field

from mooring.clients.volume import BASE_VERSION
from mooring.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.clients.session import Caller, Session
    from mooring.fence.operation import Operation

T = TypeVar("T")
Told = Literal["creating", "error", "deleting", "error_deleting"]
"""What compute says of its part: `creating` and `deleting` say that it is done."""

DONE = "90%"
"""The progress that goes with it, whichever it is: the rest is the volume service's."""


class Snapshot(Struct, frozen=True):
    """One snapshot, of `size_gib` GiB; `progress` is "90%" once compute has done its part."""

    id: str
    status: str
    volume_id: str = ""
    size_gib: int = field(name="size", default=0)
    metadata: dict[str, str] = {}
    progress: str | None = field(name="os-extended-snapshot-attributes:progress", default=None)

    @property
    def is_accepted(self) -> bool:
        """Whether the volume service goes on with the new file, and nothing changes its mind.

        Ours says so by a progress beyond compute's, which stays whatever becomes of the snapshot;
        a Cinder by making it available.
        """
        is_open = self.status == "creating" or self.status.startswith("error")
        return not is_open or _percent(self.progress) > _percent(DONE)


class NewSnapshot(Struct, frozen=True, kw_only=True):
    """A snapshot to take, also of a volume in use.

    `metadata` tells it from the snapshots that others take of the volume.
    """

    volume_id: str
    name: str
    metadata: dict[str, str]


def _percent(text: str | None) -> int:
    number = (text or "").removesuffix("%")
    return int(number) if number.isdecimal() else 0


class SnapshotClient:
    """Calls about snapshots; each raises one of the nine kinds of `mooring.errors`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def create(
        self, caller: Caller, new: NewSnapshot, *, operation: Operation | None = None
    ) -> Snapshot:
        """Begin to take a snapshot; it can be used once it is `available`.

        Raises Invalid for the state of the volume, NotFound, OverQuota.
        """
        wanted = {**msgspec.to_builtins(new), "force": True}
        return await self._read(
            "POST",
            "/snapshots",
            "snapshot",
            Snapshot,
            caller=caller,
            json={"snapshot": wanted},
            operation=operation,
        )

    async def show(self, caller: Caller, snapshot_id: str) -> Snapshot:
        """Return one snapshot. Raises NotFound."""
        path = f"/snapshots/{_part(snapshot_id)}"
        return await self._read("GET", path, "snapshot", Snapshot, caller=caller)

    async def marked(self, volume_id: str, metadata: Mapping[str, str]) -> list[Snapshot]:
        """Return the snapshots of a volume, of any project, that have all of this metadata."""
        query = urlencode({"all_tenants": "1", "volume_id": volume_id})
        path = f"/snapshots/detail?{query}"
        found = await self._read("GET", path, "snapshots", list[Snapshot], caller=None)
        return [one for one in found if metadata.items() <= one.metadata.items()]

    async def bury(self, operation: Operation, new: NewSnapshot) -> list[str]:
        """Return the snapshots that `create` made, and see that it makes no more.

        Where operations are not known: those of the volume that have the metadata.
        """
        made = await self._session.bury(operation)
        if made is not None:
            return made
        return [one.id for one in await self.marked(new.volume_id, new.metadata)]

    async def delete(
        self, caller: Caller, snapshot_id: str, *, operation: Operation | None = None
    ) -> None:
        """Begin to delete a snapshot; one that is gone is fine. Raises Invalid for its state."""
        path = f"/snapshots/{_part(snapshot_id)}"
        try:
            await self._session.request(
                "DELETE", path, caller=caller, version=BASE_VERSION, operation=operation
            )
        except NotFound:
            return

    async def tell(
        self,
        caller: Caller,
        snapshot_id: str,
        status: Told,
        *,
        operation: Operation | None = None,
    ) -> None:
        """Tell how compute's part ended. Raises Invalid when nobody waits for that, NotFound."""
        path = f"/snapshots/{_part(snapshot_id)}/action"
        body = {"os-update_snapshot_status": {"status": status, "progress": DONE}}
        await self._session.request(
            "POST", path, caller=caller, json=body, version=BASE_VERSION, operation=operation
        )

    async def _read(self, method: str, path: str, key: str, form: type[T], **how: Any) -> T:
        return await self._session.read(method, path, key, form, version=BASE_VERSION, **how)


def _part(text: str) -> str:
    """Write an id as one part of a path, whatever it holds."""
    return quote(text, safe="")
