"""The volume service, declared."""

from __future__ import annotations

from msgspec.structs import replace

from mooring.clients.compute import ComputeClient
from mooring.clients.image import ImageClient
from mooring.saga.engine import Engine
from mooring.service import Loop, Service, Surroundings, rows_of
from mooring.volume.attachments.api import attachments
from mooring.volume.attachments.loops import settle_borrowed
from mooring.volume.backends import backends
from mooring.volume.backends.api import operators
from mooring.volume.backends.loops.watch_pools import POOLS
from mooring.volume.backups.api import backup_actions, backup_records, backups
from mooring.volume.backups.stores import opening
from mooring.volume.extend.api import extending
from mooring.volume.growth import BOUNDS
from mooring.volume.migration.api import moving
from mooring.volume.policy import RULES
from mooring.volume.quotas.api import quotas
from mooring.volume.reimage.api import reimage
from mooring.volume.service import Volume, VolumeSettings
from mooring.volume.snapshots.api import reverting, snapshots
from mooring.volume.tables import (
    AttachmentRow,
    BackendRow,
    BackupRow,
    ExportRow,
    ReservationRow,
    SnapshotRow,
    VolumeRow,
)
from mooring.volume.transfers.api import transfers
from mooring.volume.types import types
from mooring.volume.types.api import types as type_routes
from mooring.volume.upload.api import uploading
from mooring.volume.volumes.api import volume_actions, volumes
from mooring.web import faces, operations
from mooring.web.face import Face

FACE: Face = replace(faces.VOLUME, maximum=(3, 71))


def _open(near: Surroundings) -> Volume:
    settings = near.settings
    return Volume(
        store=near.store,
        images=ImageClient(near.neighbour("image")),
        compute=ComputeClient(near.neighbour("compute")),
        backups=opening.open_store(settings),
        agents=near.agents,
        sealer=near.sealer,
        clock=near.clock,
        settings=VolumeSettings(
            extend_completion_version=settings.extend_completion_version,
            extend_deadline_s=float(settings.extend_deadline_s),
            borrowed_for_s=float(settings.borrowed_for_s),
            settle_interval_s=min(60.0, settings.borrowed_for_s / 4),
        ),
        outbox=near.outbox,
    )


async def _prepare(volume: Volume) -> None:
    await volume.backups.setup()
    name, now = volume.settings.default_type, volume.clock.now()
    await volume.store.write(lambda tx: types.ensure_default(tx, name, now))


def _take_sagas(volume: Volume, engine: Engine[Volume]) -> None:
    volume.sagas = engine


SERVICE = Service(
    name="volume",
    kind="block-storage",
    entry="volume/v3",
    face=FACE,
    apis=(
        volumes.api,
        volume_actions.api,
        extending.api,
        attachments.api,
        type_routes.api,
        quotas.api,
        operators.api,
        reimage.api,
        snapshots.api,
        reverting.api,
        uploading.api,
        moving.api,
        transfers.api,
        backups.api,
        backup_actions.api,
        backup_records.api,
        operations.build_api(Volume),
    ),
    rules=RULES,
    open=_open,
    bounds=BOUNDS,
    prepare=_prepare,
    loops=(
        Loop(POOLS.watch, POOLS.look_once, is_first_look=True),
        Loop(settle_borrowed.settle_borrowed, settle_borrowed.settle_once),
    ),
    take_sagas=_take_sagas,
    notifies=True,
    hosts_seen=backends.seen,
    host_uses=backends.uses,
    forget_host=backends.forget,
    keeps={"stored_backups": opening.find_stored},
    pages={
        "volumes": rows_of(VolumeRow),
        "attachments": rows_of(AttachmentRow),
        "snapshots": rows_of(SnapshotRow),
        "backups": rows_of(BackupRow),
        "exports": rows_of(ExportRow),
        "reservations": rows_of(ReservationRow),
        "volume_pools": rows_of(BackendRow, key="name"),
    },
)
