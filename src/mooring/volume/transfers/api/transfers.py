"""Transfers of volumes: /volume-transfers, and /os-volume-transfer as in early versions.

Source: facts/block_storage.md 8.6 and 9.3. What was accepted is shown to nobody: it is over.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct

from mooring.volume.service import Volume
from mooring.volume.transfers import transfer_list, transfers
from mooring.volume.transfers.transfers import NewTransfer
from mooring.volume.wire import views
from mooring.volume.wire.api import queries, values
from mooring.volume.wire.api.values import Flag, Name, asked
from mooring.web import paging
from mooring.web.api import Api, Call, Reply
from mooring.web.bodies import Since

if TYPE_CHECKING:
    from mooring.volume.tables import TransferRow

api = Api[Volume]()

_SINCE = (3, 55)
_PLACES = (("/volume-transfers", _SINCE), ("/os-volume-transfer", None))


class TransferBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A volume to offer."""

    volume_id: values.Uuid
    name: Name | None = None
    no_snapshots: Annotated[Flag, Since(*_SINCE)] = False


class AcceptBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The key that was shown when the volume was offered."""

    auth_key: Annotated[str, values.Meta(min_length=1, max_length=255)]


async def create_transfer(call: Call[Volume], given: TransferBody) -> Reply:
    """Offer a volume; only this answer has the key."""
    wanted = NewTransfer(
        volume_id=given.volume_id,
        name=given.name,
        no_snapshots=values.flag(given.no_snapshots, "no_snapshots"),
    )
    row, key = await transfers.create(asked(call), wanted)
    return Reply(202, {"transfer": _show(call, row) | {"auth_key": key}})


async def show_transfer(call: Call[Volume]) -> Reply:
    """Show one."""
    read, transfer_id = call.service.store.read, call.path["transfer_id"]
    row = await read(lambda tx: transfers.visible(tx, call.who, transfer_id))
    return Reply(200, {"transfer": _show(call, row)})


async def delete_transfer(call: Call[Volume]) -> Reply:
    """Offer the volume no longer."""
    await transfers.delete(asked(call), call.path["transfer_id"])
    return Reply(202)


async def accept_transfer(call: Call[Volume], given: AcceptBody) -> Reply:
    """Take the volume into the caller's project."""
    row = await transfers.accept(asked(call), call.path["transfer_id"], given.auth_key)
    return Reply(202, {"transfer": _summary(call, row)})


def _listing(
    path: str, show: Callable[[Call[Volume], Any], dict[str, Any]]
) -> Callable[[Call[Volume]], Awaitable[Reply]]:
    """Return what lists transfers below a path."""

    async def list_transfers(call: Call[Volume]) -> Reply:
        """List what the caller's project offers."""
        query = queries.transfers(call)
        rows = await call.service.store.read(lambda tx: transfer_list.transfers(tx, query))
        links = paging.links(
            call, path, query.page, [row.id for row in rows], name="transfers_links"
        )
        return Reply(200, {"transfers": [show(call, row) for row in rows], **links})

    return list_transfers


def _summary(call: Call[Volume], row: TransferRow) -> dict[str, Any]:
    path = f"/volume-transfers/{row.id}"
    return {
        "id": row.id,
        "name": row.name,
        "volume_id": row.volume_id,
        "links": [
            {"rel": "self", "href": call.url(path)},
            {"rel": "bookmark", "href": call.bookmark(path)},
        ],
    }


def _show(call: Call[Volume], row: TransferRow) -> dict[str, Any]:
    shown = {**_summary(call, row), "created_at": views.time(row.created_at)}
    if call.version >= _SINCE:
        shown["no_snapshots"] = row.no_snapshots
    if call.version >= (3, 57):
        shown |= {
            "source_project_id": row.project_id,
            "destination_project_id": None,
            "accepted": False,
        }
    return shown


def _serve(path: str, since: tuple[int, int] | None) -> None:
    """Answer below a path, from a version on."""
    of_one, in_detail, listed = (
        f"{path}/{{transfer_id}}",
        f"{path}/detail",
        "volume:get_all_transfers",
    )
    api.post(path, TransferBody, key="transfer", since=since, policy="volume:create_transfer")(
        create_transfer
    )
    api.get(path, since=since, policy=listed)(_listing(path, _summary))
    api.get(in_detail, since=since, policy=listed)(_listing(in_detail, _show))
    api.get(of_one, since=since, policy="volume:get_transfer")(show_transfer)
    api.delete(of_one, since=since, policy="volume:delete_transfer")(delete_transfer)
    api.post(
        f"{of_one}/accept", AcceptBody, key="accept", since=since, policy="volume:accept_transfer"
    )(accept_transfer)


for _path, _version in _PLACES:
    _serve(_path, _version)
