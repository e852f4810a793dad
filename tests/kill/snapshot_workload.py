"""Snapshots and copies while a process dies: of a volume that nobody has, and of one in use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.kill.harness import FIRST, OTHER, Answer, KilledCloud

VOLUME = "/volume/v3"
SERVERS = "/compute/v2.1/servers"
MIGRATE, MIGRATE_IN_USE = "volume.migrate_volume", "volume.migrate_in_use"
SWAP_MIGRATED = "compute.swap_migrated_volume"
MIGRATIONS = frozenset({MIGRATE, MIGRATE_IN_USE, SWAP_MIGRATED})
BESIDE = "/beside"
"""What stands behind the name of one where the volume stays at its host, in another pool."""
Act = Callable[[], Answer]


def snapshot_operations(cloud: KilledCloud, free: str, server: str) -> dict[str, list[Act]]:
    """Return, by saga, what to do besides: `server` has no volume, and is given a new one."""
    taken = [lambda: _take(cloud, free), lambda: _take(cloud, used(cloud, server))]
    gone = [
        lambda: _take_and_delete(cloud, free),
        lambda: _take_and_delete(cloud, used(cloud, server)),
    ]
    carried = [lambda: _migrate(cloud, used(cloud, server))]
    carried_beside = [lambda: _migrate_beside(cloud, used(cloud, server))]
    return {
        "volume.create_snapshot": taken,
        "compute.snapshot_volume": taken,
        "volume.copy_snapshot": [lambda: _take(cloud, shared(cloud))],
        "volume.delete_snapshot": gone,
        "compute.delete_volume_snapshot": gone,
        "volume.await_turn": [lambda: _delete_while_it_leaves(cloud, server)],
        "volume.create_volume_from_snapshot": [lambda: _copy(cloud, free)],
        "volume.revert_volume": [lambda: _revert(cloud, free)],
        "volume.clone_volume": [lambda: _clone(cloud, free)],
        "volume.upload_volume": [lambda: _upload(cloud, free)],
        MIGRATE: [lambda: _migrate(cloud, free)],
        **dict.fromkeys((MIGRATE_IN_USE, SWAP_MIGRATED), carried),
        MIGRATE + BESIDE: [lambda: _migrate_beside(cloud, free)],
        **dict.fromkeys((MIGRATE_IN_USE + BESIDE, SWAP_MIGRATED + BESIDE), carried_beside),
    }


def used(cloud: KilledCloud, server: str) -> str:
    """Return a volume that the server has; empty when the process is dead."""
    made = cloud.ask("POST", f"{VOLUME}/volumes", {"volume": {"size": 1}}, version="3.60")
    if not made.status or made.status >= 300:
        return ""
    volume: str = made.body["volume"]["id"]
    cloud.until(lambda: _is(cloud, "volume", volume, "available"), "the volume is there")
    body = {"volumeAttachment": {"volumeId": volume}}
    cloud.ask("POST", f"{SERVERS}/{server}/os-volume_attachments", body)
    cloud.until(lambda: _is(cloud, "volume", volume, "in-use"), "the volume is attached")
    return volume


def shared(cloud: KilledCloud) -> str:
    """Return a volume that several servers may have; empty when the process is dead."""
    specs = {"name": "shared", "extra_specs": {"multiattach": "<is> True"}}
    cloud.ask("POST", f"{VOLUME}/types", {"volume_type": specs}, user="admin")
    body = {"volume": {"size": 1, "volume_type": "shared"}}
    made = cloud.ask("POST", f"{VOLUME}/volumes", body)
    if not made.status or made.status >= 300:
        return ""
    volume: str = made.body["volume"]["id"]
    cloud.until(lambda: _is(cloud, "volume", volume, "available"), "the volume is there")
    return volume


def _take(cloud: KilledCloud, volume: str) -> Answer:
    body = {"snapshot": {"volume_id": volume}}
    return cloud.ask("POST", f"{VOLUME}/snapshots", body, version="3.66")


def taken(cloud: KilledCloud, volume: str) -> str:
    """Return the id of a new snapshot; empty when the process is dead."""
    answer: Any = _take(cloud, volume)
    if not answer.status or answer.status >= 300:
        return ""
    made: str = answer.body["snapshot"]["id"]
    cloud.until(lambda: _is(cloud, "snapshot", made, "available"), "the snapshot is there")
    return made


def _take_and_delete(cloud: KilledCloud, volume: str) -> Answer:
    return cloud.ask("DELETE", f"{VOLUME}/snapshots/{taken(cloud, volume) or 'none'}")


def _delete_while_it_leaves(cloud: KilledCloud, server: str) -> Answer:
    """Delete a snapshot while its volume leaves a server, which takes until the process died."""
    volume = used(cloud, server)
    snapshot = taken(cloud, volume)
    with cloud.agent_frozen():
        cloud.ask("DELETE", f"{SERVERS}/{server}/os-volume_attachments/{volume}")
        answer = cloud.ask("DELETE", f"{VOLUME}/snapshots/{snapshot or 'none'}")
        cloud.until(lambda: not _shown(cloud, server), "the process dies as the volume leaves")
    return answer


def _shown(cloud: KilledCloud, server: str) -> int:
    return cloud.ask("GET", f"{SERVERS}/{server}").status


def _copy(cloud: KilledCloud, volume: str) -> Answer:
    body = {"volume": {"size": 1, "snapshot_id": taken(cloud, volume)}}
    return cloud.ask("POST", f"{VOLUME}/volumes", body)


def _clone(cloud: KilledCloud, volume: str) -> Answer:
    body = {"volume": {"size": 1, "source_volid": volume}}
    return cloud.ask("POST", f"{VOLUME}/volumes", body)


def _upload(cloud: KilledCloud, volume: str) -> Answer:
    path = f"{VOLUME}/volumes/{volume}/action"
    value = {"image_name": "picture", "disk_format": "qcow2", "protected": True}
    return cloud.ask("POST", path, {"os-volume_upload_image": value}, version="3.1")


def _migrate(cloud: KilledCloud, volume: str) -> Answer:
    """Bring the volume to that of the two hosts that it is not at, once both have their pools."""
    first, other = (f"{host}@simulated#local" for host in (FIRST, OTHER))
    cloud.until(lambda: _has_pool(cloud, other), "the other host has a pool")
    # A new volume goes where there is more room, which is at the other host.
    shown = cloud.ask("GET", f"{VOLUME}/volumes/{volume or 'none'}", user="admin")
    lies = shown.body["volume"]["os-vol-host-attr:host"] if shown.status == 200 else ""
    return _migrate_to(cloud, volume, first if lies == other else other)


def _migrate_beside(cloud: KilledCloud, volume: str) -> Answer:
    """Bring the volume to the other pool of its host, once that is known."""
    pool = f"{FIRST}@simulated#beside"
    cloud.until(lambda: _has_pool(cloud, pool), "the host has another pool")
    return _migrate_to(cloud, volume, pool)


def _migrate_to(cloud: KilledCloud, volume: str, pool: str) -> Answer:
    path, value = f"{VOLUME}/volumes/{volume}/action", {"host": pool}
    return cloud.ask("POST", path, {"os-migrate_volume": value}, user="admin")


def _has_pool(cloud: KilledCloud, name: str) -> bool:
    shown = cloud.ask("GET", f"{VOLUME}/scheduler-stats/get_pools", user="admin")
    return not shown.status or any(pool["name"] == name for pool in shown.body["pools"])


def _revert(cloud: KilledCloud, volume: str) -> Answer:
    path, value = f"{VOLUME}/volumes/{volume}/action", {"snapshot_id": taken(cloud, volume)}
    return cloud.ask("POST", path, {"revert": value}, version="3.40")


def _is(cloud: KilledCloud, kind: str, which: str, status: str) -> bool:
    shown = cloud.ask("GET", f"{VOLUME}/{kind}s/{which}")
    if not shown.status:
        return True
    return shown.status < 300 and shown.body[kind]["status"] in {status, "error"}
