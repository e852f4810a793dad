"""Records of backups, for other clouds or a lost database (facts/block_storage.md 8.6)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from mooring import limits
from mooring.volume.backups import importing, records
from mooring.volume.backups.api.backups import summary
from mooring.volume.service import Volume
from mooring.volume.wire.api import values
from mooring.volume.wire.api.values import asked
from mooring.web.api import Api, Call, Reply

api = Api[Volume]()


class RecordBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A record, as an export told it."""

    backup_service: Annotated[str, Meta(min_length=1, max_length=limits.VOLUME_NAME_LENGTH)]
    backup_url: Annotated[str, Meta(min_length=1)]


@api.get("/backups/{backup_id}/export_record", policy="backup:backup-export")
async def export_record(call: Call[Volume]) -> Reply:
    """Tell all that another cloud needs to know of a backup."""
    record = await importing.export(asked(call), call.path["backup_id"])
    told = {"backup_service": records.SERVICE, "backup_url": records.write(record)}
    return Reply(200, {"backup-record": told})


@api.post("/backups/import_record", RecordBody, key="backup-record", policy="backup:backup-import")
async def import_record(call: Call[Volume], given: RecordBody) -> Reply:
    """Take in a backup whose data the store has already."""
    record = records.read(given.backup_service, given.backup_url)
    values.check_metadata({**record.metadata, **(record.volume_metadata or {})})
    backup_id = await importing.take_in(asked(call), record)
    return Reply(201, {"backup": summary(call, backup_id, record.name)})
