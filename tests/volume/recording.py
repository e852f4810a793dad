"""What tests of backups' records ask for: an export, and an import of what it told, or of less."""

from __future__ import annotations

import base64
import json
import uuid
from pathlib import Path
from typing import Any

from sqlalchemy import delete

from mooring.volume.tables import BackupRow
from tests.answers import Answer
from tests.cloud import SimulatedCloud
from tests.volume.backing_up import BACKUPS, begun, make_volume, the_store

SERVICE = "cinder.backup.drivers.mooring"


async def made(cloud: SimulatedCloud, volume_id: str = "", **fields: Any) -> str:
    """Make a backup, of a new volume unless one is given, and return its id."""
    # Which is the newest of a volume is told by their times.
    await cloud.pass_time(1.0)
    backup_id = await begun(cloud, volume_id or await make_volume(cloud), **fields)
    await cloud.settle()
    return backup_id


async def export(cloud: SimulatedCloud, backup_id: str) -> Answer:
    return await cloud.ask("GET", f"{BACKUPS}/{backup_id}/export_record", user="admin")


async def record_of(cloud: SimulatedCloud, backup_id: str) -> dict[str, Any]:
    """Return what the record of a backup says."""
    told = (await export(cloud, backup_id)).key("backup-record")
    assert told["backup_service"] == SERVICE
    return json.loads(base64.b64decode(told["backup_url"], validate=True))


def url_of(record: Any) -> str:
    return base64.b64encode(json.dumps(record).encode()).decode()


async def ask_import(cloud: SimulatedCloud, url: str, *, service: str = SERVICE) -> Answer:
    body = {"backup-record": {"backup_service": service, "backup_url": url}}
    return await cloud.ask("POST", f"{BACKUPS}/import_record", body, user="admin")


async def imported(cloud: SimulatedCloud, record: dict[str, Any], **changes: Any) -> str:
    """Import a record, and return the id of the backup that comes of it."""
    answer = await ask_import(cloud, url_of({**record, **changes}))
    assert answer.status == 201, answer.body
    await cloud.settle()
    return answer.key("backup")["id"]


async def a_second(cloud: SimulatedCloud, backup_id: str) -> str:
    """Import the record of a backup that is there under another id, and return that."""
    return await imported(cloud, await record_of(cloud, backup_id), id=str(uuid.uuid4()))


async def lose(cloud: SimulatedCloud) -> None:
    """Let the database forget all backups."""
    await cloud.cloud.stores["volume"].write(lambda tx: tx.execute(delete(BackupRow)))


async def ids(cloud: SimulatedCloud) -> list[str]:
    """Return the ids of all backups of all projects."""
    listed = await cloud.ask("GET", f"{BACKUPS}?all_tenants=1", user="admin")
    return sorted(one["id"] for one in listed.key("backups"))


def files(cloud: SimulatedCloud) -> dict[str, bytes]:
    """Return all that the store has, by its place."""
    found = (path for path in the_store(cloud).rglob("*") if path.is_file())
    return {str(path.relative_to(the_store(cloud))): path.read_bytes() for path in found}


def another(cloud: SimulatedCloud, directory: Path) -> SimulatedCloud:
    """Return another cloud, with a database of its own and the same store."""
    return SimulatedCloud(directory, backup_directory=str(the_store(cloud)))
