"""Scenarios of backups: of volumes, used or not, and of a snapshot, and what is made of them."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec

from mooring.volume.backups import records
from mooring.volume.backups.records import SERVICE
from mooring.volume.backups.sagas.back_up_in_use import BACK_UP_IN_USE
from mooring.volume.backups.sagas.back_up_snapshot import BACK_UP_SNAPSHOT
from mooring.volume.backups.sagas.create_backup import CREATE_BACKUP
from mooring.volume.backups.sagas.create_from_backup import CREATE_VOLUME_FROM_BACKUP
from mooring.volume.backups.sagas.delete_backup import DELETE_BACKUP
from mooring.volume.backups.sagas.import_backup import IMPORT_BACKUP
from mooring.volume.backups.sagas.restore_backup import RESTORE_BACKUP
from mooring.volume.backups.sagas.store_backup import STORE_BACKUP
from mooring.volume.snapshots.sagas.delete_snapshot import DELETE_SNAPSHOT
from tests.crowd import on_volumes
from tests.crowd.case import Case
from tests.laws import basics
from tests.laws.sites import VOLUME, Do, Scenario, Site, Wants
from tests.laws.told import Story
from tests.laws.volume_snapshot_scenarios import a_snapshot

_DELETES = (DELETE_SNAPSHOT.name, "compute.delete_volume_snapshot")


async def back_up(site: Site, **fields: Any) -> Any:
    named = {
        key: value.format(**site.names) if isinstance(value, str) else value
        for key, value in fields.items()
    }
    body = {"backup": {"volume_id": site.names["volume"], "name": "new", **named}}
    return await site.ask("POST", f"{VOLUME}/backups", body)


async def delete_backup(site: Site) -> Any:
    return await site.ask("DELETE", f"{VOLUME}/backups/{{backup}}")


async def restore(site: Site, **fields: str) -> Any:
    given = {key: text.format(**site.names) for key, text in fields.items()}
    return await site.ask("POST", f"{VOLUME}/backups/{{backup}}/restore", {"restore": given})


async def a_backup(site: Site, *, of: Do) -> None:
    await of(site)
    body = {"backup": {"volume_id": site.names["volume"]}}
    made = await site.get("POST", f"{VOLUME}/backups", body)
    site.names["backup"] = made["backup"]["id"]


async def a_record(site: Site) -> None:
    """Have a backup, and its record as that of another one."""
    await _KEPT(site)
    path = f"{VOLUME}/backups/{{backup}}/export_record"
    told = (await site.get("GET", path, user="admin"))["backup-record"]
    site.names["imported"] = IMPORTED
    site.names["record"] = _rename(told["backup_url"], IMPORTED)


async def a_second_record(site: Site) -> None:
    """Have two backups whose data are the same."""
    await a_record(site)
    await site.get("POST", f"{VOLUME}/backups/import_record", _body_of(site), user="admin")


async def import_backup(site: Site) -> Any:
    return await site.ask("POST", f"{VOLUME}/backups/import_record", _body_of(site), user="admin")


def _body_of(site: Site) -> dict[str, Any]:
    return {"backup-record": {"backup_service": SERVICE, "backup_url": site.names["record"]}}


def _rename(url: str, backup_id: str) -> str:
    record: dict[str, Any] = msgspec.json.decode(base64.b64decode(url))
    return base64.b64encode(msgspec.json.encode({**record, "id": backup_id})).decode()


IMPORTED = "66666666-6666-4666-8666-666666666666"
_KEPT = partial(a_backup, of=basics.a_volume)
_PICTURED = partial(a_snapshot, of=basics.a_volume)
_back_up_snapshot = partial(back_up, snapshot_id="{snapshot}")
BACKUPS = [
    Scenario(
        "create backup", CREATE_BACKUP, basics.a_volume, back_up, wants=Wants("volume", "volume")
    ),
    Scenario(
        "create incremental backup",
        CREATE_BACKUP,
        _KEPT,
        partial(back_up, incremental=True),
        wants=Wants("volume backup", "volume"),
    ),
    Scenario(
        "create backup of a snapshot",
        BACK_UP_SNAPSHOT,
        _PICTURED,
        _back_up_snapshot,
        # It ends as it has the copy stored, whatever becomes of that.
        outlives=(STORE_BACKUP.name,),
        wants=Wants("volume snapshot", "volume", "snapshot"),
    ),
    Scenario(
        "create backup in use",
        BACK_UP_IN_USE,
        basics.a_server_with_volume,
        partial(back_up, force=True),
        # It ends as it begins the snapshot's backup, whatever becomes of that.
        outlives=(BACK_UP_SNAPSHOT.name, STORE_BACKUP.name, *_DELETES),
        wants=Wants("server volume", "server volume"),
    ),
    Scenario(
        "store backup",
        STORE_BACKUP,
        _PICTURED,
        _back_up_snapshot,
        wants=Wants("volume snapshot", "volume", "snapshot"),
    ),
    Scenario(
        "delete backup",
        DELETE_BACKUP,
        _KEPT,
        delete_backup,
        wants=Wants("volume backup", "backup"),
    ),
    Scenario(
        "delete one of two records of a backup",
        DELETE_BACKUP,
        a_second_record,
        delete_backup,
        wants=Wants("volume backup imported record", "backup"),
    ),
    Scenario(
        "import backup",
        IMPORT_BACKUP,
        a_record,
        import_backup,
        wants=Wants("volume backup imported record", "imported"),
    ),
    Scenario(
        "restore backup",
        RESTORE_BACKUP,
        _KEPT,
        partial(restore, volume_id="{volume}"),
        wants=Wants("volume backup", "volume backup"),
    ),
    Scenario(
        "restore to a new volume",
        CREATE_VOLUME_FROM_BACKUP,
        _KEPT,
        restore,
        wants=Wants("volume backup", "backup"),
    ),
]
LOST = records.write(
    records.Record(
        id=IMPORTED,
        stored_as=IMPORTED,
        parent_id=None,
        project_id="",
        name=None,
        description=None,
        volume_id=IMPORTED,
        snapshot_id=None,
        size=1,
        availability_zone="nova",
        container=None,
        object_count=1,
        metadata={},
        bootable=False,
        image_metadata={},
        volume_metadata={},
        data_timestamp=datetime(2026, 1, 1, tzinfo=UTC),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
)
EVENTS = [
    Story(
        "backup.create",
        "begun; it is available",
        about="backup_id",
        sagas=(CREATE_BACKUP, STORE_BACKUP),
    ),
    Story(
        "backup.restore",
        "begun; the volume has it, which is told of as created too if it is new",
        about="backup_id",
        sagas=(RESTORE_BACKUP, CREATE_VOLUME_FROM_BACKUP),
    ),
    Story("backup.delete", "begun; gone", about="backup_id", sagas=(DELETE_BACKUP,)),
]
CROWD = [
    Case(
        route="POST /backups",
        before=(on_volumes.VOLUMES,),
        body={"backup": {"volume_id": "{v#}", "name": "{case}-new#"}},
        look="/backups",
        kept='"{case}-new#"',
    ),
    # One record, whose data are not there.
    Case(
        route="POST /backups/import_record",
        body={"backup-record": {"backup_service": SERVICE, "backup_url": LOST}},
        look=f"/backups/{IMPORTED}",
        kept='"error"',
        alone=True,
    ),
    # Not alone: whoever comes when the first one has its volume may have another.
    Case(
        route=f"POST {on_volumes.BACKUP_ALL}/restore",
        before=(on_volumes.VOLUME, on_volumes.BACKUP),
        path=f"{on_volumes.BACKUP_AT}/restore",
        body={"restore": {"name": "{case}-back#"}},
        look="/volumes",
        kept='"{case}-back#"',
    ),
    Case(
        route=f"POST {on_volumes.BACKUP_ALL}/action os-force_delete",
        before=(on_volumes.VOLUMES, on_volumes.BACKUPS),
        path="/backups/{b#}/action",
        body={"os-force_delete": None},
        look="/backups",
        gone="{b#}",
    ),
    Case(
        route=f"DELETE {on_volumes.BACKUP_ALL}",
        before=(on_volumes.VOLUMES, on_volumes.BACKUPS),
        path="/backups/{b#}",
        look="/backups",
        gone="{b#}",
    ),
]
