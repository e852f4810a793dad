"""The compute service, declared."""

from __future__ import annotations

from msgspec.structs import replace

from mooring.clients.image import ImageClient
from mooring.clients.placement import PlacementClient
from mooring.clients.projects import Projects
from mooring.clients.share import ShareClient
from mooring.clients.volume import VolumeClient
from mooring.compute.actions.api import instance_actions
from mooring.compute.aggregates.api import aggregates
from mooring.compute.consoles.api import remote_consoles, serial_door
from mooring.compute.events.api import external_events
from mooring.compute.flavors import flavors
from mooring.compute.flavors.api import flavors as flavor_routes
from mooring.compute.groups.api import server_groups
from mooring.compute.growth import BOUNDS
from mooring.compute.hosts import draining, host_changes, hosts
from mooring.compute.hosts.api import (
    availability_zones,
    drains,
    fences,
    hypervisors,
    services,
)
from mooring.compute.hosts.loops import drain_hosts, fence_silent, heal_servers, watch_hosts
from mooring.compute.images.api import server_images
from mooring.compute.keypairs.api import keypairs
from mooring.compute.moves import migrations
from mooring.compute.moves.api import cold_migrate, evacuate, live_migrate
from mooring.compute.moves.api import migrations as migration_routes
from mooring.compute.moves.loops import confirm_resizes
from mooring.compute.policy import RULES
from mooring.compute.quotas.api import limits, quota_sets
from mooring.compute.rebuild.api import server_rebuild
from mooring.compute.rescue.api import server_rescue
from mooring.compute.servers.api import (
    network_proxies,
    server_actions,
    server_metadata,
    server_networks,
    servers,
    unbuilt,
)
from mooring.compute.service import Compute, ComputeSettings
from mooring.compute.shares import share_places
from mooring.compute.shares.api import server_shares
from mooring.compute.shares.loops import sweep_shares
from mooring.compute.shelve.api import shelve
from mooring.compute.shelve.loops import offload_shelved
from mooring.compute.snapshots.api import assisted_volume_snapshots
from mooring.compute.tables import Host, HostFencing, Migration, Server
from mooring.compute.usage.api import tenant_usages
from mooring.compute.volumes import devices
from mooring.compute.volumes.api import volume_attachments
from mooring.fence.debts import DebtRow
from mooring.saga.engine import Engine
from mooring.service import Loop, Service, Surroundings, rows_of
from mooring.web import faces, operations
from mooring.web.app import End
from mooring.web.face import Face

FACE: Face = replace(faces.COMPUTE, maximum=(2, 106))
"""2.105 is the extend completion (specs 000), 2.106 cold moves of servers with shares (specs 003).
"""


def _open(near: Surroundings) -> Compute:
    placement = near.neighbour("placement")
    return Compute(
        store=near.store,
        images=ImageClient(near.neighbour("image")),
        placement=PlacementClient(placement),
        volumes=VolumeClient(near.neighbour("volume")),
        shares=ShareClient(near.neighbour("share")),
        projects=Projects(near.neighbour("identity")),
        agents=near.agents,
        clock=near.clock,
        fence=near.host_fence,
        own_user_id=placement.user_id,
        settings=ComputeSettings(
            reimage_timeout_per_gb=float(near.settings.reimage_timeout_per_gb),
            move_timeout_s=float(near.settings.live_migration_timeout_s),
            move_timeout_action=near.settings.live_migration_timeout_action,
            moves_at_once=near.settings.max_concurrent_live_migrations,
            resize_confirm_window=float(near.settings.resize_confirm_window),
            shelved_offload_time=float(near.settings.shelved_offload_time),
            deleted_servers_s=near.settings.deleted_servers_days * 86400.0,
            evacuate_after_s=float(near.settings.evacuate_after_s),
            force_config_drive=near.settings.force_config_drive,
            console_token_s=float(near.settings.console_token_s),
        ),
        outbox=near.outbox,
    )


async def _prepare(compute: Compute) -> None:
    now = compute.clock.now()
    await compute.store.write(lambda tx: flavors.bootstrap(tx, now))


def _take_sagas(compute: Compute, engine: Engine[Compute]) -> None:
    compute.sagas = engine


def _end_buried(compute: Compute) -> End:
    return compute.sagas.end


SERVICE = Service(
    name="compute",
    kind="compute",
    entry="compute/v2.1",
    face=FACE,
    apis=(
        servers.api,
        server_actions.api,
        server_rebuild.api,
        server_images.api,
        live_migrate.api,
        cold_migrate.api,
        evacuate.api,
        shelve.api,
        server_rescue.api,
        remote_consoles.api,
        migration_routes.api,
        server_metadata.api,
        server_networks.api,
        network_proxies.api,
        volume_attachments.api,
        server_shares.api,
        instance_actions.api,
        flavor_routes.api,
        keypairs.api,
        external_events.api,
        assisted_volume_snapshots.api,
        services.api,
        drains.api,
        fences.api,
        hypervisors.api,
        availability_zones.api,
        server_groups.api,
        aggregates.api,
        limits.api,
        quota_sets.api,
        tenant_usages.api,
        unbuilt.api,
        operations.build_api(Compute),
    ),
    rules=RULES,
    open=_open,
    bounds=BOUNDS,
    prepare=_prepare,
    loops=(
        Loop(watch_hosts.run, watch_hosts.look_once, is_first_look=True),
        Loop(heal_servers.run, heal_servers.heal_once),
        Loop(drain_hosts.run, draining.advance_all),
        Loop(fence_silent.run),
        Loop(confirm_resizes.run, confirm_resizes.confirm_once),
        Loop(offload_shelved.run, offload_shelved.offload_once),
        Loop(sweep_shares.run, sweep_shares.sweep_once),
    ),
    take_sagas=_take_sagas,
    end_buried=_end_buried,
    notifies=True,
    sockets={serial_door.PATH: serial_door.build},
    hosts_seen=hosts.seen,
    host_uses=host_changes.uses,
    forget_host=host_changes.forget,
    pages={
        "servers": rows_of(Server, Server.deleted_at.is_(None)),
        "devices": devices.read_all,
        "server_shares": share_places.read_all,
        "hosts": rows_of(Host, key="name"),
        "fencings": rows_of(HostFencing, key="host"),
        "debts": rows_of(DebtRow),
        "moves": rows_of(Migration, migrations.unfinished(), key="uuid"),
    },
)
