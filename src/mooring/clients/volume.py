"""The volume service, as its callers see it: ours, or a real Cinder.

Source: facts/block_storage.md 2 and 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from mooring.clients import volume_versions
from mooring.clients.volume_forms import REACHED_BY, Attached, Attachment, NewVolume, Volume
from mooring.errors import Invalid, NotFound

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mooring.clients.session import Caller, Session
    from mooring.fence.operation import Operation

T = TypeVar("T")

__all__ = [
    "ATTACHMENTS_SINCE",
    "BASE_VERSION",
    "COMPLETION_VERSION",
    "VERSION",
    "Attached",
    "Attachment",
    "NewVolume",
    "Volume",
    "VolumeClient",
]

BASE_VERSION = "3.0"
"""What every volume service speaks: volumes, and the calls of before attachments."""
VERSION = "3.44"
"""The lowest microversion with the whole attachments flow; a real Nova speaks it too."""
ATTACHMENTS_SINCE = (3, 44)
"""The same, to be compared."""
COMPLETION_VERSION = "3.71"
"""The first microversion with os-extend_volume_completion (specs 000)."""
FORCE_VERSION = "3.23"
"""The microversion that brought `force` to the deletion of a volume."""
REIMAGE_VERSION = "3.68"
"""The microversion that brought `os-reimage`."""
_NOT_ACCEPTABLE = 406
"""What a service answers that does not speak the microversion of a request."""


class VolumeClient:
    """Calls to the volume API; each raises one of the nine kinds of `mooring.errors`.

    A PUT, DELETE or action may be repeated. A POST that may have been lost is settled by its
    operation: `bury_volumes`, or the session's `bury`, tells what it made.
    """

    def __init__(self, session: Session) -> None:
        self.session = session

    async def show(self, caller: Caller, volume_id: str) -> Volume:
        """Return one volume. Raises NotFound."""
        return await self._read(
            "GET", f"/volumes/{_part(volume_id)}", "volume", Volume, caller=caller
        )

    async def create(
        self,
        caller: Caller,
        new: NewVolume,
        *,
        host: str = "",
        operation: Operation | None = None,
    ) -> Volume:
        """Start to make a volume; it is usable once its status is `available`. Raises OverQuota.

        Ours goes to a pool that `host` reaches, or is in error; a Cinder takes any pool.
        """
        return await self._read(
            "POST",
            "/volumes",
            "volume",
            Volume,
            caller=caller,
            json={"volume": msgspec.to_builtins(new)},
            operation=operation,
            headers={REACHED_BY: host} if host else None,
        )

    async def delete(
        self,
        caller: Caller,
        volume_id: str,
        *,
        force: bool = False,
        operation: Operation | None = None,
    ) -> None:
        """Start to delete a volume; one that is gone is fine. Raises Invalid for its state.

        With `force`, which needs an administrator, also one that is still being made.
        """
        path = f"/volumes/{_part(volume_id)}" + ("?force=true" if force else "")
        version = FORCE_VERSION if force else BASE_VERSION
        await self._change("DELETE", path, caller, operation=operation, version=version)

    async def volumes(self, caller: Caller, *, name: str | None = None) -> list[Volume]:
        """Return the project's volumes, or those of one name."""
        path = "/volumes/detail" if name is None else "/volumes/detail?" + _query({"name": name})
        return await self._read("GET", path, "volumes", list[Volume], caller=caller)

    async def create_attachment(
        self,
        caller: Caller,
        volume_id: str,
        server_id: str,
        *,
        connector: Mapping[str, Any] | None = None,
        operation: Operation | None = None,
    ) -> Attachment:
        """Reserve a volume for a server; with a connector, export it to that host as well.

        Raises Invalid when the volume's state forbids it (another server has it), NotFound.
        """
        attachment = {"volume_uuid": volume_id, "instance_uuid": server_id, "connector": connector}
        try:
            return await self._read(
                "POST",
                "/attachments",
                "attachment",
                Attachment,
                caller=caller,
                json={"attachment": attachment},
                version=VERSION,
                operation=operation,
            )
        except Invalid as error:
            if not _is_too_old(error):
                raise
            raise Invalid(
                f"The volume service offers no attachments: it is older than {VERSION}. Volume "
                f"{volume_id} was not kept for server {server_id}.",
                private=error.private,
            ) from error

    async def connect_attachment(
        self,
        caller: Caller,
        attachment_id: str,
        connector: Mapping[str, Any],
        *,
        operation: Operation | None = None,
    ) -> Attachment:
        """Export the volume to the connector's host; the answer has the `connection_info`.

        Asked again with the same connector it gives the same. Raises Conflict while another
        attachment of a volume without multiattach is connected.
        """
        return await self._read(
            "PUT",
            f"/attachments/{_part(attachment_id)}",
            "attachment",
            Attachment,
            caller=caller,
            json={"attachment": {"connector": dict(connector)}},
            version=VERSION,
            operation=operation,
        )

    async def show_attachment(self, caller: Caller, attachment_id: str) -> Attachment:
        """Return one attachment with its `connection_info`. Raises NotFound."""
        path = f"/attachments/{_part(attachment_id)}"
        return await self._read(
            "GET", path, "attachment", Attachment, caller=caller, version=VERSION
        )

    async def attachments(
        self, caller: Caller, *, server_id: str | None = None, volume_id: str | None = None
    ) -> list[Attachment]:
        """Return the attachments of a server, a volume, or both together, without connections.

        Where there are none yet, below 3.44, nobody has one.
        """
        found = await self.find_attachments(caller, server_id=server_id, volume_id=volume_id)
        return found or []

    async def find_attachments(
        self, caller: Caller, *, server_id: str | None = None, volume_id: str | None = None
    ) -> list[Attachment] | None:
        """Return the same, but None where the service offers no attachments (specs 001).

        A volume service that was set up without these filters is asked for all of them.
        """
        wanted = {"all_tenants": "1", "instance_id": server_id, "volume_id": volume_id}
        try:
            found = await self._attachments(caller, wanted)
        except Invalid as error:
            if _is_too_old(error):
                return None
            found = await self._attachments(caller, {"all_tenants": "1"})
        return [
            each
            for each in found
            if server_id in (None, each.server_id) and volume_id in (None, each.volume_id)
        ]

    async def _attachments(
        self, caller: Caller, wanted: Mapping[str, str | None]
    ) -> list[Attachment]:
        found: list[Attachment] = []
        while True:
            marker = found[-1].id if found else None
            path = "/attachments?" + _query({**wanted, "marker": marker})
            try:
                page = await self._read(
                    "GET", path, "attachments", list[Attachment], caller=caller, version=VERSION
                )
            except NotFound:
                if marker is None:
                    raise
                # The one that the last page ended with is gone by now: those that are left anew.
                found = []
                continue
            if not page:
                return found
            found += page

    async def complete_attachment(
        self, caller: Caller, attachment_id: str, *, operation: Operation | None = None
    ) -> None:
        """Tell that the guest has the volume: it becomes `in-use`. Raises NotFound."""
        path = f"/attachments/{_part(attachment_id)}/action"
        body = {"os-complete": attachment_id}
        await self.session.request(
            "POST", path, caller=caller, json=body, version=VERSION, operation=operation
        )

    async def delete_attachment(
        self, caller: Caller, attachment_id: str, *, operation: Operation | None = None
    ) -> None:
        """End the export, if any, and forget the attachment; one that is gone already is fine."""
        path = f"/attachments/{_part(attachment_id)}"
        await self._change("DELETE", path, caller, operation=operation, version=VERSION)

    async def bury_volumes(
        self, caller: Caller, operation: Operation, *, name: str, known: Collection[str]
    ) -> list[str]:
        """Return the volumes that a `create` made, and see that it makes no more.

        Where operations are not known: the volumes of that name, without those in `known`.
        """
        made = await self.session.bury(operation)
        if made is not None:
            return made
        there = await self.volumes(caller, name=name)
        return [volume.id for volume in there if volume.id not in known]

    async def begin_detaching(
        self, caller: Caller, volume_id: str, *, operation: Operation | None = None
    ) -> None:
        """Turn an `in-use` volume to `detaching`. Raises Invalid for another state."""
        await self.act(caller, volume_id, "os-begin_detaching", operation=operation)

    async def roll_detaching(
        self, caller: Caller, volume_id: str, *, operation: Operation | None = None
    ) -> None:
        """Turn a `detaching` volume back to `in-use`; any other state is left alone."""
        await self.act(caller, volume_id, "os-roll_detaching", operation=operation)

    async def complete_extend(
        self, caller: Caller, volume_id: str, *, error: bool, operation: Operation | None = None
    ) -> bool:
        """Tell how the extend of an attached volume went: with `error`, it has its old size.

        False when the volume service does not wait for that (any more): the volume is gone, or
        somebody else has finished it. Raises Forbidden, Unavailable.
        """
        try:
            await self.session.request(
                "POST",
                f"/volumes/{_part(volume_id)}/action",
                caller=caller,
                json={"os-extend_volume_completion": {"error": error}},
                version=COMPLETION_VERSION,
                operation=operation,
            )
        except (Invalid, NotFound):
            return False
        return True

    async def reimage(
        self,
        caller: Caller,
        volume_id: str,
        image_id: str,
        *,
        reserved: bool = False,
        operation: Operation | None = None,
    ) -> None:
        """Start to give a volume the content of an image; `reserved`: also a reserved one.

        It is `downloading` until that ends. Raises Invalid or Conflict for its state, or for an
        image that does not suit it, NotFound.
        """
        arguments = {"image_id": image_id, "reimage_reserved": reserved}
        await self.act(
            caller,
            volume_id,
            "os-reimage",
            arguments,
            operation=operation,
            version=REIMAGE_VERSION,
        )

    async def find_newest_version(self, caller: Caller) -> tuple[int, int]:
        """Return the newest microversion that the service speaks; (3, 0) when it names none."""
        answer = await self.session.request("GET", "/", caller=caller)
        return volume_versions.find_newest(answer.json())

    async def act(
        self,
        caller: Caller,
        volume_id: str,
        action: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        operation: Operation | None = None,
        version: str = BASE_VERSION,
    ) -> Any:
        """Run one action of a volume by its wire name (`os-attach`); return its answer."""
        answer = await self.session.request(
            "POST",
            f"/volumes/{_part(volume_id)}/action",
            caller=caller,
            json={action: arguments},
            version=version,
            operation=operation,
        )
        return answer.json() if answer.content else None

    async def _read(
        self,
        method: str,
        path: str,
        key: str,
        form: type[T],
        *,
        version: str = BASE_VERSION,
        **how: Any,
    ) -> T:
        return await self.session.read(method, path, key, form, version=version, **how)

    async def _change(
        self,
        method: str,
        path: str,
        caller: Caller,
        *,
        operation: Operation | None,
        version: str = BASE_VERSION,
    ) -> None:
        try:
            await self.session.request(
                method, path, caller=caller, version=version, operation=operation
            )
        except NotFound:
            return


def _is_too_old(error: Invalid) -> bool:
    return error.detail.get("http_status") == _NOT_ACCEPTABLE


def _query(wanted: Mapping[str, str | None]) -> str:
    """Write query parameters, without those that are None."""
    return urlencode({key: value for key, value in wanted.items() if value is not None})


def _part(text: str) -> str:
    """Write an id as one part of a path, whatever it holds."""
    return quote(text, safe="")
