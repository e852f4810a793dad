"""Scenarios of snapshots and copies: of a volume that nobody has, and of one that a guest uses."""

from __future__ import annotations

from functools import partial
from typing import Any

from mooring.compute.delete.sagas.delete_server import DELETE_SERVER
from mooring.compute.volumes.sagas.swap_migrated import SWAP_MIGRATED
from mooring.volume.migration.sagas.migrate_in_use import MIGRATE_IN_USE
from mooring.volume.migration.sagas.migrate_volume import MIGRATE_VOLUME
from mooring.volume.snapshots.sagas.create_snapshot import CREATE_SNAPSHOT
from mooring.volume.snapshots.sagas.delete_snapshot import DELETE_SNAPSHOT
from mooring.volume.snapshots.sagas.revert_volume import REVERT_VOLUME
from mooring.volume.snapshots.sagas.turns import AWAIT_TURN
from mooring.volume.upload.sagas.upload_volume import UPLOAD_VOLUME
from mooring.volume.volumes.sagas.create_volume import CLONE_VOLUME, CREATE_VOLUME_FROM_SNAPSHOT
from mooring.volume.volumes.sagas.delete_volume import DELETE_VOLUME
from tests.crowd import on_volumes
from tests.crowd.case import Ask, Case
from tests.laws import basics
from tests.laws.sites import (
    BESIDE,
    COMPUTE,
    NEIGHBOURS,
    SERVER_OR_NONE,
    STORE,
    VOLUME,
    Do,
    Scenario,
    Site,
    Wants,
)
from tests.laws.told import Event, Story

_TOLD = ("faults", "instance_actions", "messages")
"""What differs, with SERVER_OR_NONE, where the copy was begun by then, or not."""


async def take_snapshot(site: Site) -> Any:
    body = {"snapshot": {"volume_id": site.names["volume"], "name": "new"}}
    return await site.ask("POST", f"{VOLUME}/snapshots", body, version="3.66")


async def delete_snapshot(site: Site) -> Any:
    return await site.ask("DELETE", f"{VOLUME}/snapshots/{{snapshot}}")


async def delete_later(site: Site) -> Any:
    """Delete a snapshot whose server compute is busy with at first."""
    site.refuse_once("DELETE", "/os-assisted-volume-snapshots/", is_busy=True)
    return await delete_snapshot(site)


async def copy_snapshot(site: Site) -> Any:
    body = {"volume": {"size": 2, "name": "copy", "snapshot_id": site.names["snapshot"]}}
    return await site.ask("POST", f"{VOLUME}/volumes", body)


async def clone_volume(site: Site) -> Any:
    body = {"volume": {"size": 2, "name": "copy", "source_volid": site.names["volume"]}}
    return await site.ask("POST", f"{VOLUME}/volumes", body)


async def upload_volume(site: Site) -> Any:
    value = {"image_name": "picture", "disk_format": "qcow2", "protected": True}
    body = {"os-volume_upload_image": value}
    return await site.ask("POST", f"{VOLUME}/volumes/{{volume}}/action", body, version="3.1")


async def migrate_volume(site: Site) -> Any:
    return await _migrate(site, f"{STORE}#local", f"{NEIGHBOURS[STORE]}#local")


async def migrate_beside(site: Site) -> Any:
    """Bring it to another pool of its host."""
    return await _migrate(site, BESIDE, NEIGHBOURS[BESIDE])


async def _migrate(site: Site, pool: str, neighbours: str) -> Any:
    host, _, name = (neighbours if "asker" in site.names else pool).partition("#")
    value = {"host": f"{host}@simulated#{name}", "lock_volume": True}
    path = f"{VOLUME}/volumes/{{volume}}/action"
    return await site.ask("POST", path, {"os-migrate_volume": value}, user="admin")


async def a_volume_that_goes_too(site: Site, *, server: Do) -> None:
    await server(site)
    path = f"{COMPUTE}/servers/{{server}}/os-volume_attachments/{{volume}}"
    named = {"volumeId": site.names["volume"], "delete_on_termination": True}
    await site.get("PUT", path, {"volumeAttachment": named}, version="2.85")


async def delete_server_on_the_way(site: Site) -> Any:
    """Delete the server while its host does not say how far the copy of its volume is."""
    site.silence("GET", "/mirror", b"")
    await migrate_volume(site)
    await site.until_waiting(SWAP_MIGRATED.name)
    answer = await site.ask("DELETE", f"{COMPUTE}/servers/{{server}}")
    await site.until_absorbed(SWAP_MIGRATED.name)
    site.silence("", "", b"")
    return answer


async def revert_volume(site: Site) -> Any:
    value = {"snapshot_id": site.names["snapshot"]}
    return await site.ask(
        "POST", f"{VOLUME}/volumes/{{volume}}/action", {"revert": value}, version="3.40"
    )


async def a_snapshot(site: Site, *, of: Do) -> None:
    await of(site)
    body = {"snapshot": {"volume_id": site.names["volume"]}}
    made = await site.get("POST", f"{VOLUME}/snapshots", body, version="3.66")
    site.names["snapshot"] = made["snapshot"]["id"]


_ON_VOLUME = Wants("volume", "volume")
_ON_SNAPSHOT = Wants("volume snapshot", "volume", "snapshot")
_COPIED = partial(a_snapshot, of=basics.a_volume)
_USED = partial(a_snapshot, of=basics.a_server_with_volume)


def _migration(name: str, saga: Any, pool: str, *, in_use: bool = False) -> Scenario:
    """Have a volume go to a pool of another host, or beside its own at the same one."""
    act, word = (migrate_beside, "beside") if pool == BESIDE else (migrate_volume, "store")
    arrange = basics.a_server_with_volume if in_use else basics.a_volume
    both = "server volume" if in_use else "volume"
    wants = Wants(both, both, word, bare=True)
    name = f"{name} beside" if pool == BESIDE else name
    return Scenario(name, saga, arrange, act, hosts=(pool,), wants=wants)


_MIGRATED_IN_USE = [
    *(
        _migration(name, saga, pool, in_use=True)
        for pool in (STORE, BESIDE)
        for name, saga in (
            ("migrate volume in use", MIGRATE_IN_USE),
            ("let a guest go on with a copy", SWAP_MIGRATED),
        )
    ),
    Scenario(
        "delete a server with a volume on its way",
        DELETE_SERVER,
        partial(a_volume_that_goes_too, server=basics.a_server_with_volume),
        delete_server_on_the_way,
        (*_TOLD, *SERVER_OR_NONE),
        outlives=(MIGRATE_IN_USE.name, SWAP_MIGRATED.name, DELETE_VOLUME.name),
        hosts=(STORE,),
    ),
]
VOLUME_SNAPSHOTS = [
    Scenario("take snapshot", CREATE_SNAPSHOT, basics.a_volume, take_snapshot, wants=_ON_VOLUME),
    Scenario(
        "take snapshot in use",
        CREATE_SNAPSHOT,
        basics.a_server_with_volume,
        take_snapshot,
        wants=Wants("server volume", "server volume"),
    ),
    Scenario("delete snapshot", DELETE_SNAPSHOT, _COPIED, delete_snapshot, wants=_ON_SNAPSHOT),
    Scenario(
        "delete snapshot in use",
        DELETE_SNAPSHOT,
        _USED,
        delete_snapshot,
        wants=Wants("server volume snapshot", "server volume", "snapshot"),
    ),
    Scenario(
        "await a busy server",
        AWAIT_TURN,
        _USED,
        delete_later,
        ("messages",),
        # It ends as it begins the deletion anew, whatever becomes of that.
        outlives=(DELETE_SNAPSHOT.name, "compute.delete_volume_snapshot"),
        wants=Wants("server volume snapshot", "server volume", "snapshot"),
    ),
    Scenario(
        "copy snapshot", CREATE_VOLUME_FROM_SNAPSHOT, _COPIED, copy_snapshot, wants=_ON_SNAPSHOT
    ),
    Scenario("revert volume", REVERT_VOLUME, _COPIED, revert_volume, wants=_ON_SNAPSHOT),
    Scenario("clone volume", CLONE_VOLUME, basics.a_volume, clone_volume, wants=_ON_VOLUME),
    Scenario("upload volume", UPLOAD_VOLUME, basics.a_volume, upload_volume, wants=_ON_VOLUME),
    *(_migration("migrate volume", MIGRATE_VOLUME, pool) for pool in (STORE, BESIDE)),
    *_MIGRATED_IN_USE,
    Scenario(
        "upload volume with a snapshot",
        UPLOAD_VOLUME,
        _COPIED,
        upload_volume,
        wants=Wants("volume snapshot", "volume"),
    ),
]
EVENTS: list[Event] = [
    Story(
        "volume.revert",
        "begun; it has its newest snapshot's content",
        about="volume_id",
        sagas=(REVERT_VOLUME,),
    ),
    Event("volume.retype", "a change of its type is over, well or badly", phases=()),
]
_SPARE = Ask("GET", "/scheduler-stats/get_pools", None, "spare", "pools.1.name")
CROWD = [
    on_volumes.case("revert", {"snapshot_id": "{snap}"}, on_volumes.SNAPSHOT, shows='"available"'),
    on_volumes.each(
        "os-volume_upload_image",
        {"image_name": "{case}#", "disk_format": "qcow2"},
        look="/volumes/{v#}",
        kept='"available"',
    ),
    on_volumes.each(
        "os-retype",
        {"new_type": "{type}"},
        on_volumes.TYPE,
        look="/volumes/{v#}",
        kept='"volume_type": "{case}"',
    ),
    on_volumes.each(
        "os-migrate_volume", {"host": "{spare}"}, _SPARE, look="/volumes/{v#}", kept="{spare}"
    ),
    Case(
        route="POST /snapshots",
        before=(on_volumes.VOLUME,),
        body={"snapshot": {"volume_id": "{v}", "name": "{case}-new#"}},
        look="/snapshots",
        kept='"{case}-new#"',
    ),
    Case(
        route=f"DELETE {on_volumes.SNAP_ALL}",
        before=(on_volumes.VOLUME, on_volumes.SNAPSHOTS),
        path="/snapshots/{snap#}",
        look="/snapshots",
        gone="{snap#}",
    ),
    Case(
        route=f"POST {on_volumes.SNAP_ALL}/action os-force_delete",
        before=(on_volumes.VOLUME, on_volumes.SNAPSHOTS),
        path="/snapshots/{snap#}/action",
        body={"os-force_delete": None},
        look="/snapshots",
        gone="{snap#}",
    ),
]
