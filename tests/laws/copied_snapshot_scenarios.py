"""Scenarios of snapshots of volumes that several servers may have: copies, of one free or used."""

from __future__ import annotations

from functools import partial

from mooring.volume.snapshots.sagas.copy_snapshot import COPY_SNAPSHOT
from mooring.volume.snapshots.sagas.delete_snapshot import DELETE_SNAPSHOT
from mooring.volume.snapshots.sagas.revert_volume import REVERT_VOLUME
from mooring.volume.volumes.sagas.create_volume import CREATE_VOLUME_FROM_SNAPSHOT
from tests.laws import basics, shared_volume_scenarios
from tests.laws.sites import Scenario, Site, Wants
from tests.laws.volume_snapshot_scenarios import (
    a_snapshot,
    copy_snapshot,
    delete_snapshot,
    revert_volume,
    take_snapshot,
)


async def a_free_volume(site: Site) -> None:
    """A volume that several servers may have, and none has."""
    await basics.a_volume(site, volume_type=await shared_volume_scenarios.a_type(site))
    await site.cloud.settle()


async def a_volume_in_use(site: Site) -> None:
    """A volume that several servers may have, and one has."""
    await basics.a_server(site)
    await a_free_volume(site)
    await shared_volume_scenarios.attach(Site.beside(site, shared=site.names["volume"]))
    await site.cloud.settle()


_FREE = partial(a_snapshot, of=a_free_volume)
_USED = partial(a_snapshot, of=a_volume_in_use)
_ON_VOLUME = Wants("volume", "volume")
_ON_SNAPSHOT = Wants("volume snapshot", "volume", "snapshot")
COPIES = [
    Scenario("take a copy", COPY_SNAPSHOT, a_free_volume, take_snapshot, wants=_ON_VOLUME),
    Scenario(
        "take a copy in use",
        COPY_SNAPSHOT,
        a_volume_in_use,
        take_snapshot,
        wants=Wants("server volume", "volume"),
    ),
    Scenario("delete a copy", DELETE_SNAPSHOT, _FREE, delete_snapshot, wants=_ON_SNAPSHOT),
    Scenario(
        "delete a copy in use",
        DELETE_SNAPSHOT,
        _USED,
        delete_snapshot,
        wants=Wants("server volume snapshot", "volume", "snapshot"),
    ),
    Scenario("revert to a copy", REVERT_VOLUME, _FREE, revert_volume, wants=_ON_SNAPSHOT),
    Scenario(
        "make a volume of a copy",
        CREATE_VOLUME_FROM_SNAPSHOT,
        _FREE,
        copy_snapshot,
        wants=_ON_SNAPSHOT,
    ),
]
