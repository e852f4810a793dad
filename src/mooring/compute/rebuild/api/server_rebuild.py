"""The action `rebuild` of a server (facts/compute.md 1.4, 5; specs 002 and 004)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from sqlalchemy.orm import Session

from mooring.compute.create.api import server_create
from mooring.compute.rebuild import rebuilding
from mooring.compute.rebuild.rebuild_requests import Rebuild
from mooring.compute.servers import server_list, servers
from mooring.compute.servers.api.server_bodies import RebuildBody
from mooring.compute.servers.api.server_views import SHOW, UPDATE_BEFORE_275, ServerView
from mooring.compute.service import Compute
from mooring.compute.wire.api.values import access_address, truth, with_dashes
from mooring.errors import Invalid
from mooring.web.api import Api, Call, Reply

if TYPE_CHECKING:
    from mooring.compute.servers.server_list import Surroundings
    from mooring.compute.tables import Server

api = Api[Compute]()

_SHOWN_WHOLE = (2, 75)
_REIMAGES_SINCE = (2, 93)
"""From here on the root volume of a server gets the image that its rebuild names."""


@api.action(
    "/servers/{server_id}/action",
    "rebuild",
    RebuildBody,
    policy="os_compute_api:servers:rebuild",
)
async def rebuild_server(call: Call[Compute], body: RebuildBody) -> Reply:
    """Make the server anew from an image. From 2.93 on this destroys what its root volume holds."""
    wanted = _read(call, body)
    server_id = call.path["server_id"]
    await rebuilding.rebuild(call.service, call.who, server_id, wanted)

    def read(tx: Session) -> tuple[Server, Surroundings]:
        found = servers.visible(tx, call.who, server_id)
        return found, server_list.of_one(tx, found)

    server, around = await call.service.store.read(read)
    view = ServerView(call, around, SHOW if call.version >= _SHOWN_WHOLE else UPDATE_BEFORE_275)
    shown: dict[str, Any] = view.whole(server)
    shown["adminPass"] = server_create.password(body.admin_pass)
    _add_guests_own(call, shown, server)
    return Reply(202, {"server": shown}, {"location": view.links(server_id)[0]["href"]})


def _read(call: Call[Compute], body: RebuildBody) -> Rebuild:
    """Return what the body asks for. Raises Invalid for what this version or cloud refuses."""
    if body.personality:
        raise Invalid(
            "Personality files are not built: nothing would put them into the guest. "
            "Nothing was changed; use user_data instead."
        )
    if body.trusted_image_certificates:
        raise Invalid(
            "This cloud does not verify image signatures, so trusted_image_certificates cannot "
            "be honoured. Nothing was changed; leave them out."
        )
    reimage = body.reimage_boot_volume
    return Rebuild(
        image_id=with_dashes(body.image_ref),
        reimage=None if reimage is UNSET else truth(reimage),
        columns=_columns(call, body),
        metadata=None if body.metadata is UNSET else body.metadata,
        key_name=body.key_name,
        may_reimage=call.version >= _REIMAGES_SINCE,
    )


def _columns(call: Call[Compute], body: RebuildBody) -> dict[str, Any]:
    """Return new values of the server's columns, by their names."""
    user_data = body.user_data
    if user_data is not UNSET:
        user_data = server_create.check_user_data(user_data)
    if body.hostname is not UNSET:
        server_create.check_hostname(body.hostname, call.version)
    given = {
        "name": body.name,
        "description": body.description,
        "hostname": body.hostname,
        "disk_config": body.disk_config,
        "access_ip_v4": access_address(body.access_ip_v4, "accessIPv4", 4),
        "access_ip_v6": access_address(body.access_ip_v6, "accessIPv6", 6),
        "user_data": user_data,
        "trusted_certificates": body.trusted_image_certificates,
    }
    return {name: value for name, value in given.items() if value is not UNSET}


def _add_guests_own(call: Call[Compute], shown: dict[str, Any], server: Server) -> None:
    """Show the key and the user data, where the version shows them after a rebuild."""
    if call.version >= (2, 54):
        shown["key_name"] = server.key_name
    if call.version >= (2, 57):
        # Here it has no prefix, and stands once.
        shown.pop("OS-EXT-SRV-ATTR:user_data", None)
        shown["user_data"] = server.user_data
