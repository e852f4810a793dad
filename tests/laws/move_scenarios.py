"""Scenarios of servers that move between hosts."""

from __future__ import annotations

from typing import Any

from mooring.compute.delete.sagas.delete_server import DELETE_SERVER
from mooring.compute.moves.sagas.cold_migrate import COLD_MIGRATE
from mooring.compute.moves.sagas.confirm_resize import CONFIRM_RESIZE
from mooring.compute.moves.sagas.live_migrate import LIVE_MIGRATE
from mooring.compute.moves.sagas.revert_resize import REVERT_RESIZE
from tests.crowd import on_servers
from tests.crowd.case import Ask, Case
from tests.laws.sites import (
    COMPUTE,
    FOURTH,
    NEIGHBOURS,
    SERVER_OR_NONE,
    THIRD,
    TOLD,
    VOLUME,
    Do,
    Scenario,
    Site,
    Wants,
    hints_of,
)
from tests.laws.told import WITH_ERROR, Event, Story

_ACTION = f"{COMPUTE}/servers/{{server}}/action"
_HOST = "OS-EXT-SRV-ATTR:host"


async def a_server_that_moves(site: Site) -> None:
    """A server on the first host that boots from a volume, and another host."""
    await set_others(site, "disabled")
    for name in ("volume", "data"):
        body = {"volume": {"size": 1, "name": name}}
        made = await site.get("POST", f"{VOLUME}/volumes", body)
        site.names[name] = made["volume"]["id"]
    path = f"{VOLUME}/volumes/{{volume}}/action"
    await site.get("POST", path, {"os-set_bootable": {"bootable": True}})
    root = {"source_type": "volume", "destination_type": "volume", "boot_index": 0}
    server: dict[str, Any] = {"name": "new", "flavorRef": site.names["flavor"], **TOLD}
    server["block_device_mapping_v2"] = [{**root, "uuid": site.names["volume"]}]
    made = await site.get("POST", f"{COMPUTE}/servers", {"server": server, **hints_of(site)})
    site.names["server"] = made["server"]["id"]
    await site.get(
        "POST",
        f"{COMPUTE}/servers/{{server}}/os-volume_attachments",
        {"volumeAttachment": {"volumeId": site.names["data"]}},
    )
    await site.cloud.settle()
    await set_others(site, "enabled")


async def a_server_with_a_local_disk(site: Site) -> None:
    """A server on the first host with root and swap disk there and a volume, and another host."""
    await set_others(site, "disabled")
    made = await site.get("POST", f"{VOLUME}/volumes", {"volume": {"size": 1, "name": "data"}})
    site.names["data"] = made["volume"]["id"]
    server: dict[str, Any] = {"name": "new", "imageRef": site.names["image"], **TOLD}
    server["flavorRef"] = await _find_swapping(site)
    made = await site.get("POST", f"{COMPUTE}/servers", {"server": server, **hints_of(site)})
    site.names["server"] = made["server"]["id"]
    await site.get(
        "POST",
        f"{COMPUTE}/servers/{{server}}/os-volume_attachments",
        {"volumeAttachment": {"volumeId": site.names["data"]}},
    )
    await site.cloud.settle()
    await set_others(site, "enabled")


async def _find_swapping(site: Site) -> str:
    """Return a small flavor with swap, which a neighbour may have made."""
    size = {"id": "swapping", "name": "m1.swap", "vcpus": 1, "ram": 128, "disk": 1, "swap": 512}
    listed = await site.get("GET", f"{COMPUTE}/flavors")
    if all(one["id"] != size["id"] for one in listed["flavors"]):
        await site.get("POST", f"{COMPUTE}/flavors", {"flavor": size}, user="admin")
    return "swapping"


async def set_others(site: Site, status: str) -> None:
    """Let new servers go to the hosts that servers are to move to, or not."""
    listed = await site.get("GET", f"{COMPUTE}/os-services", user="admin", version="2.100")
    for service in listed["services"]:
        if service["host"] in {*NEIGHBOURS, *NEIGHBOURS.values()}:
            path = f"{COMPUTE}/os-services/{service['id']}"
            await site.get("PUT", path, {"status": status}, user="admin", version="2.100")


async def live_migrate(site: Site) -> Any:
    """Move the server while it runs; a neighbour's to a host where the first one's does not go."""
    host = FOURTH if "asker" in site.names else THIRD
    value = {"host": host, "block_migration": False}
    return await act(site, "os-migrateLive", value, user="admin")


async def live_migrate_in_vain(site: Site) -> Any:
    """The same, and the guest is not sent: what an abort that comes in time leads to, too."""
    source = "h2" if "asker" in site.names else "h1"
    site.refuse_at(source, "PUT", "/servers/{server}/departure")
    return await live_migrate(site)


async def cold_migrate(site: Site) -> Any:
    """Move the server while it is off, and a neighbour's to a host of its own."""
    host = FOURTH if "asker" in site.names else THIRD
    return await act(site, "migrate", {"host": host}, user="admin")


async def cold_migrate_in_vain(site: Site) -> Any:
    """The same, and the other host does not start the guest."""
    host = FOURTH if "asker" in site.names else THIRD
    site.refuse_at(host, "PUT", "/servers/{server}")
    return await cold_migrate(site)


async def resize(site: Site) -> Any:
    """Give the server a larger flavor on its host."""
    return await act(site, "resize", {"flavorRef": "84"})


async def a_server_that_moved(site: Site) -> None:
    """The same server on the other host, with one more volume, before its user's word."""
    await a_server_that_moves(site)
    shown = await site.get("GET", f"{COMPUTE}/servers/{{server}}", user="admin")
    is_neighbour = shown["server"][_HOST] == "h2"
    body = {"migrate": {"host": FOURTH if is_neighbour else THIRD}}
    await site.get("POST", _ACTION, body, user="admin", version="2.90")
    made = await site.get("POST", f"{VOLUME}/volumes", {"volume": {"size": 1, "name": "later"}})
    site.names["later"] = made["volume"]["id"]
    await site.get(
        "POST",
        f"{COMPUTE}/servers/{{server}}/os-volume_attachments",
        {"volumeAttachment": {"volumeId": site.names["later"]}},
    )


async def confirm(site: Site) -> Any:
    """Say that the server stays."""
    return await act(site, "confirmResize", None)


async def revert(site: Site) -> Any:
    """Have the server go back."""
    return await act(site, "revertResize", None)


async def delete(site: Site) -> Any:
    """Delete the server at both hosts."""
    return await site.ask("DELETE", f"{COMPUTE}/servers/{{server}}")


async def act(site: Site, action: str, value: Any, user: str = "demo") -> Any:
    return await site.ask("POST", _ACTION, {action: value}, user=user, version="2.90")


async def delete_on_the_way(site: Site) -> Any:
    """Delete the server while its host does not say whether it still sends the guest."""
    await send_in_vain(site, live_migrate)
    answer = await delete(site)
    await answer_again(site)
    return answer


async def send_in_vain(site: Site, move: Do) -> None:
    site.silence("DELETE", "/departure", b"")
    await move(site)
    await site.until_waiting(LIVE_MIGRATE.name)


async def answer_again(site: Site) -> None:
    """Let the host answer once the move was left to who came."""
    await site.until_absorbed(LIVE_MIGRATE.name)
    site.silence("", "", b"")


_TOLD = ("faults", "instance_actions", "migrations")
"""What differs with SERVER_OR_NONE where the guest had been sent by then, or not."""
_MOVING = Wants("server volume data", "server volume data", moves=True)
MOVES = [
    Scenario(
        "cold migration",
        COLD_MIGRATE,
        a_server_that_moves,
        cold_migrate,
        hosts=(THIRD,),
        wants=_MOVING,
    ),
    Scenario(
        "cold migration in vain",
        COLD_MIGRATE,
        a_server_that_moves,
        cold_migrate_in_vain,
        hosts=(THIRD,),
        wants=_MOVING,
    ),
    Scenario("resize", COLD_MIGRATE, a_server_that_moves, resize, wants=_MOVING),
    Scenario(
        "confirm",
        CONFIRM_RESIZE,
        a_server_that_moved,
        confirm,
        hosts=(THIRD,),
        wants=Wants("server volume data later", "server volume data", "later"),
    ),
    Scenario(
        "delete a moved server",
        DELETE_SERVER,
        a_server_that_moved,
        delete,
        hosts=(THIRD,),
        wants=Wants("server volume data later", "server", "later"),
    ),
    Scenario(
        "revert",
        REVERT_RESIZE,
        a_server_that_moved,
        revert,
        hosts=(THIRD,),
        wants=Wants("server volume data later", "server volume data later"),
    ),
    Scenario(
        "live migration",
        LIVE_MIGRATE,
        a_server_that_moves,
        live_migrate,
        hosts=(THIRD,),
        wants=_MOVING,
    ),
    Scenario(
        "live migration in vain",
        LIVE_MIGRATE,
        a_server_that_moves,
        live_migrate_in_vain,
        hosts=(THIRD,),
        wants=_MOVING,
    ),
    Scenario(
        "delete on the way",
        DELETE_SERVER,
        a_server_that_moves,
        delete_on_the_way,
        (*_TOLD, *SERVER_OR_NONE),
        hosts=(THIRD,),
    ),
]
EVENTS: list[Event] = [
    Event("instance.live_migration_pre", "a live migration is accepted; the destination is ready"),
    Story(
        "instance.live_migration_post",
        "the guest is at the destination; the source is left",
        about="server_id",
        sagas=(LIVE_MIGRATE,),
        otherwise="instance.live_migration_rollback.end",
    ),
    Event("instance.live_migration_rollback", "the guest stayed; the destination is left"),
    Event(
        "instance.resize_prep",
        "a cold migration or resize is accepted; the destination is ready",
    ),
    Event(
        "instance.resize",
        "the guest is about to stop; it is off; it did not start, and goes on where it was",
        phases=WITH_ERROR,
    ),
    Story(
        "instance.resize_finish",
        "the guest is about to start; the server waits for its user's word",
        about="server_id",
        sagas=(COLD_MIGRATE,),
        otherwise="instance.resize.error",
    ),
    Story(
        "instance.resize_confirm",
        "confirmed; the host that was left has let go",
        about="server_id",
        sagas=(CONFIRM_RESIZE,),
    ),
    Story(
        "instance.resize_revert",
        "accepted; over, whether the server went back or not",
        about="server_id",
        sagas=(REVERT_RESIZE,),
    ),
]
_LIVE, _SIZE = {"host": None, "block_migration": "auto"}, {"flavorRef": "84"}
_MOVED = (
    on_servers.BOOTED,
    on_servers.act("os-migrateLive", _LIVE),
    Ask("GET", "/os-migrations?instance_uuid={s}", None, "m", "migrations.0.id"),
)
"""A server, and its move that is over."""
_SIZED = on_servers.act("resize", _SIZE)
"""Gives a server another size, before its user's word."""
CROWD = [
    on_servers.case("migrate", on=on_servers.BOOTED, shows='"ACTIVE"'),
    on_servers.case("resize", _SIZE, on=on_servers.BOOTED, shows='"VERIFY_RESIZE"', alone=True),
    on_servers.case(
        "confirmResize", None, _SIZED, on=on_servers.BOOTED, shows='"ACTIVE"', alone=True
    ),
    on_servers.case(
        "revertResize", None, _SIZED, on=on_servers.BOOTED, shows='"ACTIVE"', alone=True
    ),
    on_servers.case("os-migrateLive", _LIVE, on=on_servers.BOOTED, shows='"ACTIVE"'),
    Case(
        route=f"DELETE {on_servers.ALL}/migrations/{{migration_id}}",
        before=_MOVED,
        path=f"{on_servers.AT}/migrations/{{m}}",
        refused=True,
    ),
    Case(
        route=f"POST {on_servers.ALL}/migrations/{{migration_id}}/action force_complete",
        before=_MOVED,
        path=f"{on_servers.AT}/migrations/{{m}}/action",
        body={"force_complete": None},
        refused=True,
    ),
]
"""There is one host only, so that no move gets anywhere."""
