"""/os-assisted-volume-snapshots: what file drivers ask of compute (facts/compute.md 10.2)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from mooring import typed
from mooring.compute.service import Compute
from mooring.compute.snapshots import assisted_snapshots
from mooring.compute.snapshots.assisted_snapshots import NewSnapshot, OldSnapshot
from mooring.compute.wire.api import queries
from mooring.errors import Invalid
from mooring.web.api import Api, Call, Reply

api = Api[Compute]()

PATH = "/os-assisted-volume-snapshots"
_RULE = "os_compute_api:os-assisted-volume-snapshots:"
_ID = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z"

Name = Annotated[str, Meta(min_length=1, max_length=255)]
Id = Annotated[str, Meta(pattern=_ID)]


class CreateInfo(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to make; `id` is only given back."""

    snapshot_id: Id
    type: Literal["qcow2"]
    new_file: Name
    id: Name | None = None


class Create(Struct, frozen=True, forbid_unknown_fields=True):
    """The volume and what to make of it."""

    volume_id: Id
    create_info: CreateInfo


class DeleteInfo(Struct, frozen=True, kw_only=True):
    """The value of `delete_info`, JSON inside of the query. Unknown members are left alone."""

    volume_id: Id
    type: Literal["qcow2"] = "qcow2"
    file_to_merge: Name | None = None
    merge_target_file: Name | None = None


@api.post(PATH, Create, key="snapshot", only_key=True, policy=f"{_RULE}create")
async def create(call: Call[Compute], wanted: Create) -> Reply:
    """Let the guest write to a new file; the volume service is told how it went."""
    info = wanted.create_info
    new = NewSnapshot(
        volume_id=wanted.volume_id, snapshot_id=info.snapshot_id, new_file=info.new_file
    )
    await assisted_snapshots.create(call.service, new, call.operation)
    shown: dict[str, Any] = {"id": info.id or info.snapshot_id, "volumeId": wanted.volume_id}
    return Reply(200, {"snapshot": shown})


@api.delete(f"{PATH}/{{snapshot_id}}", policy=f"{_RULE}delete")
async def delete(call: Call[Compute]) -> Reply:
    """Merge files so that a snapshot's may go; the volume service is told how it went."""
    queries.check_keys(call, ("delete_info",))
    info = _read(call.query.get("delete_info"))
    old = OldSnapshot(
        volume_id=info.volume_id,
        snapshot_id=_check_id(call.path["snapshot_id"]),
        file_to_merge=info.file_to_merge,
        merge_target_file=info.merge_target_file,
    )
    await assisted_snapshots.delete(call.service, old, call.operation)
    return Reply(204)


def _read(text: str | None) -> DeleteInfo:
    if text is None:
        raise Invalid("The query must have delete_info. Nothing was changed.")
    try:
        return typed.decode(text, DeleteInfo)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise Invalid(f"Invalid input for delete_info: {error}. Nothing was changed.") from error


def _check_id(text: str) -> str:
    try:
        return typed.convert(text, Id)
    except msgspec.ValidationError:
        raise Invalid(f"{text[:64]!r} is no id of a snapshot. Nothing was changed.") from None
