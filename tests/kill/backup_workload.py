"""Backups while a process dies: made, restored to the volume and to a new one, deleted."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable
from typing import Any

from tests.kill.harness import Answer, KilledCloud
from tests.kill.snapshot_workload import taken, used

BACKUPS = "/volume/v3/backups"
Act = Callable[[], Answer]


def backup_operations(cloud: KilledCloud, volume: str, server: str) -> dict[str, list[Act]]:
    """Return, by saga, what to do besides: nobody has the volume, and the server has none yet."""
    return {
        "volume.create_backup": [lambda: _back_up(cloud, volume)],
        "volume.back_up_snapshot": [lambda: _back_up_snapshot(cloud, volume)],
        "volume.back_up_in_use": [lambda: _back_up(cloud, used(cloud, server), force=True)],
        "volume.store_backup": [lambda: _back_up_snapshot(cloud, volume)],
        "volume.delete_backup": [lambda: _delete(cloud, volume)],
        "volume.import_backup": [lambda: _import(cloud, volume)],
        "volume.restore_backup": [lambda: _restore(cloud, volume, volume_id=volume)],
        "volume.create_volume_from_backup": [lambda: _restore(cloud, volume)],
    }


def _back_up(cloud: KilledCloud, volume: str, **fields: Any) -> Answer:
    return cloud.ask("POST", BACKUPS, {"backup": {"volume_id": volume, **fields}})


def _back_up_snapshot(cloud: KilledCloud, volume: str) -> Answer:
    body = {"volume_id": volume, "snapshot_id": taken(cloud, volume) or None}
    return cloud.ask("POST", BACKUPS, {"backup": body})


def _backed_up(cloud: KilledCloud, volume: str) -> str:
    """Return the id of a new backup; "none" when the process is dead."""
    answer: Any = _back_up(cloud, volume)
    if not answer.status or answer.status >= 300:
        return "none"
    made: str = answer.body["backup"]["id"]
    cloud.until(lambda: _is_done(cloud, made), "the backup is there")
    return made


def _is_done(cloud: KilledCloud, backup: str) -> bool:
    shown = cloud.ask("GET", f"{BACKUPS}/{backup}")
    if not shown.status:
        return True
    return shown.status < 300 and shown.body["backup"]["status"] in {"available", "error"}


def _delete(cloud: KilledCloud, volume: str) -> Answer:
    return cloud.ask("DELETE", f"{BACKUPS}/{_backed_up(cloud, volume)}")


def _import(cloud: KilledCloud, volume: str) -> Answer:
    """Import a new backup once more, under another id."""
    path = f"{BACKUPS}/{_backed_up(cloud, volume)}/export_record"
    answer: Any = cloud.ask("GET", path, user="admin")
    if answer.status != 200:
        return answer
    told = answer.body["backup-record"]
    record = json.loads(base64.b64decode(told["backup_url"])) | {"id": str(uuid.uuid4())}
    url = base64.b64encode(json.dumps(record).encode()).decode()
    body = {"backup-record": {**told, "backup_url": url}}
    return cloud.ask("POST", f"{BACKUPS}/import_record", body, user="admin")


def _restore(cloud: KilledCloud, volume: str, **fields: str) -> Answer:
    path = f"{BACKUPS}/{_backed_up(cloud, volume)}/restore"
    return cloud.ask("POST", path, {"restore": fields})
