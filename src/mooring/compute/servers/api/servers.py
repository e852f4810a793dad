"""/servers: made, listed, shown, changed and deleted (facts/compute.md 10.1)."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET
from sqlalchemy.orm import Session

from mooring.compute.create.api import server_create
from mooring.compute.servers import server_changes, server_list, servers
from mooring.compute.servers.api import server_filters
from mooring.compute.servers.api.server_bodies import Create, ServerChange
from mooring.compute.servers.api.server_views import (
    DETAIL,
    SHOW,
    UPDATE_BEFORE_275,
    ServerView,
    Shape,
)
from mooring.compute.servers.server_changes import ServerChanges
from mooring.compute.servers.server_list import Surroundings
from mooring.compute.service import Compute
from mooring.compute.tables import Server
from mooring.compute.wire.api import queries
from mooring.compute.wire.api.values import access_address, truth
from mooring.web import paging
from mooring.web.api import Api, Call, Reply

api = Api[Compute]()

_RULE = "os_compute_api:servers:"
_FORCED_HOST = {
    "zone": "os_compute_api:servers:create:forced_host",
    "body": "compute:servers:create:requested_destination",
}


@api.get("/servers", policy=f"{_RULE}index")
async def list_servers(call: Call[Compute]) -> Reply:
    """Names and links of one page."""
    page = server_filters.read_page(call)
    query = server_filters.read(call, page, f"{_RULE}index")
    rows: list[Server] = []
    if query is not None:
        rows = await call.service.store.read(lambda tx: server_list.page(tx, query, brief=True))
    view = ServerView(call, Surroundings())
    return _page(call, page, rows, [view.brief(row) for row in rows])


@api.get("/servers/detail", policy=f"{_RULE}detail")
async def list_servers_detail(call: Call[Compute]) -> Reply:
    """One page, whole."""
    page = server_filters.read_page(call)
    query = server_filters.read(call, page, f"{_RULE}detail")

    def read(tx: Session) -> tuple[list[Server], Surroundings]:
        found = server_list.page(tx, query) if query is not None else []
        return found, server_list.surroundings(tx, found) if found else Surroundings()

    rows, around = await call.service.store.read(read)
    view = ServerView(call, around, DETAIL)
    return _page(call, page, rows, [view.whole(row) for row in rows])


@api.post("/servers", Create, policy=f"{_RULE}create")
async def create_server(call: Call[Compute], body: Create) -> Reply:
    """Make servers. Their quota, image, flavor and disks are checked before the answer."""
    queries.check_keys(call, ())
    wanted = server_create.read(
        body, call.version, zero_disk_allowed=call.allowed(f"{_RULE}create:zero_disk_flavor")
    )
    rule = _FORCED_HOST.get(server_create.forces_host(body.server))
    if rule:
        call.require(rule)
    if any(device.destination_type == "volume" for device in wanted.block_devices):
        call.require(f"{_RULE}create:attach_volume")
    created = await servers.create(call.service, call.who, wanted)
    if truth(body.server.return_reservation_id):
        return Reply(202, {"reservation_id": created.reservation_id})
    server_id = created.server_ids[0]
    links = ServerView(call, Surroundings()).links(server_id)
    answer: dict[str, Any] = {
        "id": server_id,
        "links": links,
        "OS-DCF:diskConfig": wanted.disk_config,
        "security_groups": [{"name": "default"}],
        "adminPass": server_create.password(body.server.admin_pass),
    }
    return Reply(202, {"server": answer}, {"location": links[0]["href"]})


@api.get("/servers/{server_id}", policy=f"{_RULE}show")
async def show_server(call: Call[Compute]) -> Reply:
    """One server."""
    queries.check_keys(call, ())
    return await _show(call, SHOW)


@api.put("/servers/{server_id}", ServerChange, key="server", only_key=True, policy=f"{_RULE}update")
async def update_server(call: Call[Compute], change: ServerChange) -> Reply:
    """Change names, texts and addresses; nothing that the guest notices."""
    queries.check_keys(call, ())
    if change.hostname is not UNSET:
        server_create.check_hostname(change.hostname, call.version)
    wanted = ServerChanges(
        name=change.name,
        description=change.description,
        hostname=change.hostname,
        disk_config=change.disk_config,
        access_ip_v4=access_address(change.access_ip_v4, "accessIPv4", 4),
        access_ip_v6=access_address(change.access_ip_v6, "accessIPv6", 6),
        pinned_zone=change.pinned_availability_zone,
    )
    now, server_id = call.service.clock.now(), call.path["server_id"]
    await call.service.store.write(
        lambda tx: server_changes.update(tx, call.who, server_id, wanted, now)
    )
    return await _show(call, SHOW if call.version >= (2, 75) else UPDATE_BEFORE_275)


@api.delete("/servers/{server_id}", policy=f"{_RULE}delete")
async def delete_server(call: Call[Compute]) -> Reply:
    """Delete a server, whatever it is doing."""
    await servers.delete(call.service, call.who, call.path["server_id"])
    return Reply(204)


async def _show(call: Call[Compute], shape: Shape) -> Reply:
    def read(tx: Session) -> tuple[Server, Surroundings]:
        found = servers.visible(tx, call.who, call.path["server_id"])
        return found, server_list.of_one(tx, found)

    server, around = await call.service.store.read(read)
    return Reply(200, {"server": ServerView(call, around, shape).whole(server)})


def _page(
    call: Call[Compute], page: paging.Page, rows: list[Server], shown: list[dict[str, Any]]
) -> Reply:
    ids = [row.id for row in rows]
    path = "/servers/detail" if call.request.url.path.endswith("/detail") else "/servers"
    links = paging.links(call, path, page, ids, name="servers_links")
    return Reply(200, {"servers": shown, **links})
