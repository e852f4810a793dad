"""The compute service, as its callers see it: ours, or a real Nova."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, urlencode

import msgspec
from msgspec import UNSET, Struct, UnsetType

from mooring import typed
from mooring.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.clients.session import Caller, Session
    from mooring.fence.operation import Operation

EventStatus = Literal["completed", "failed", "in-progress"]

_EVENT_VERSIONS = {"volume-reimaged": "2.93", "volume-extended": "2.51"}
_SHOW_ATTACHMENT_VERSION = "2.89"
_ASSISTED = "/os-assisted-volume-snapshots"


class VolumeAttachment(Struct, frozen=True):
    """One volume of one server, as compute 2.89 shows it. Source: facts/compute.md 2.2.

    `attachment_id` is the volume service's own id: the one that its delete guard compares.
    """

    server_id: str = msgspec.field(name="serverId")
    volume_id: str = msgspec.field(name="volumeId")
    attachment_id: str
    bdm_uuid: str = ""
    device: str | None = None
    tag: str | None = None
    delete_on_termination: bool = False


class ExternalEvent(Struct, frozen=True, omit_defaults=True):
    """News for one server: for `volume-extended`, the tag is the volume's id."""

    server_uuid: str
    name: str
    status: EventStatus | UnsetType = UNSET
    tag: str | UnsetType = UNSET


class EventAnswer(Struct, frozen=True):
    """What compute made of one event: 200 taken, 404 no such server, 422 server without a host.

    `code` is 0 when the answer has none.
    """

    server_uuid: str
    name: str
    code: int = 0
    status: str = ""
    tag: str = ""


class ComputeClient:
    """Calls to the compute API; each raises one of the nine kinds of `mooring.errors`."""

    def __init__(self, session: Session) -> None:
        self.session = session

    async def show_volume_attachment(
        self, caller: Caller, server_id: str, volume_id: str
    ) -> VolumeAttachment:
        """Return the volume as the server lists it. Raises NotFound when it does not list it."""
        path = f"/servers/{server_id}/os-volume_attachments/{volume_id}"
        answer = await self.session.request(
            "GET", path, caller=caller, version=_SHOW_ATTACHMENT_VERSION
        )
        return typed.convert(answer.json()["volumeAttachment"], VolumeAttachment)

    async def swap_volume(
        self,
        caller: Caller,
        server_id: str,
        volume_id: str,
        new_id: str,
        *,
        operation: Operation | None = None,
    ) -> None:
        """Ask that a server's guest go on with another volume, to which this one is copied.

        The end is told by `os-migrate_volume_completion` where both volumes say that the one is
        migrated to the other. Raises Conflict, Invalid, NotFound. Source: facts/compute.md 2.5.
        """
        path = f"/servers/{server_id}/os-volume_attachments/{volume_id}"
        body = {"volumeAttachment": {"volumeId": new_id}}
        await self.session.request(
            "PUT", path, caller=caller, json=body, version="2.1", operation=operation
        )

    async def send_events(
        self,
        caller: Caller,
        events: Sequence[ExternalEvent],
        *,
        version: str = "",
        operation: Operation | None = None,
    ) -> list[EventAnswer]:
        """Tell compute what happened to volumes of its servers. Source: facts/compute.md 8.

        `version` is the microversion to speak, by default the lowest that knows every event sent.
        Each answer has its own code: a refused event does not raise. Raises Conflict for an answer
        that does not list the events.
        """
        body: dict[str, Any] = {"events": msgspec.to_builtins(list(events))}
        answer = await self.session.request(
            "POST",
            "/os-server-external-events",
            caller=caller,
            json=body,
            version=version or _lowest_version(events),
            operation=operation,
        )
        try:
            return typed.convert(answer.json()["events"], list[EventAnswer])
        except (KeyError, TypeError, msgspec.ValidationError) as error:
            raise Conflict(
                "The compute service did not say what it made of the events.", private=str(error)
            ) from error

    async def forget_event(self, operation: Operation) -> None:
        """See that compute does nothing more under the operation that an event was sent with.

        A compute service that knows no operations, a real Nova, is left alone.
        """
        await self.session.bury(operation)

    async def wake(self, operation_id: str, *, timeout_s: float) -> None:
        """Tell an operation of compute that what it asked for is done. Raises NotFound: foreign."""
        path = f"/mooring/operations/{quote(operation_id, safe='')}/action"
        await self.session.request(
            "POST", path, caller=None, json={"wake": None}, timeout_s=timeout_s
        )

    async def create_assisted_snapshot(
        self,
        caller: Caller,
        volume_id: str,
        snapshot_id: str,
        new_file: str,
        *,
        operation: Operation | None = None,
    ) -> None:
        """Ask that the guest which has a volume write to `new_file` from now on.

        The name is one of the directory that the volume's file lies in. The end is told by the
        snapshot action `os-update_snapshot_status`. Source: facts/block_storage.md 5.2.
        """
        info = {"snapshot_id": snapshot_id, "type": "qcow2", "new_file": new_file}
        body = {"snapshot": {"volume_id": volume_id, "create_info": info}}
        await self.session.request(
            "POST", _ASSISTED, caller=caller, json=body, version="2.1", operation=operation
        )

    async def delete_assisted_snapshot(
        self,
        caller: Caller,
        volume_id: str,
        snapshot_id: str,
        files: tuple[str | None, str | None],
        *,
        operation: Operation | None = None,
    ) -> None:
        """Ask that the guest which has a volume merge the files of one of its snapshots.

        `files` are the one to merge and the one to merge it into (None: the active one takes in
        all that lies above the first). Told as with `create_assisted_snapshot`.
        """
        info = {
            "volume_id": volume_id,
            "type": "qcow2",
            "file_to_merge": files[0],
            "merge_target_file": files[1],
        }
        query = urlencode({"delete_info": msgspec.json.encode(info).decode()})
        path = f"{_ASSISTED}/{snapshot_id}?{query}"
        await self.session.request(
            "DELETE", path, caller=caller, version="2.1", operation=operation
        )


def _lowest_version(events: Sequence[ExternalEvent]) -> str:
    versions = [_EVENT_VERSIONS.get(event.name, "2.1") for event in events]
    return max(versions, key=lambda version: tuple(map(int, version.split("."))))
