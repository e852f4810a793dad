"""What can be done with a volume: POST /volumes/{volume_id}/action."""

from __future__ import annotations

from typing import Any, Literal, get_args

from msgspec import Struct

from mooring.errors import Invalid
from mooring.volume.attachments import legacy
from mooring.volume.service import Volume
from mooring.volume.volumes import deleting, properties, volumes
from mooring.volume.wire.api import values
from mooring.volume.wire.api.values import Flag, Metadata, asked
from mooring.web.api import Api, Call, Reply

api = Api[Volume]()

_PATH = "/volumes/{volume_id}/action"
_ACTIONS = "volume_extension:volume_actions"
_ADMIN = "volume_extension:volume_admin_actions"
_IMAGE = "volume_extension:volume_image_metadata"

Status = Literal[
    "creating",
    "available",
    "error",
    "error_deleting",
    "error_managing",
    "managing",
    "attaching",
    "in-use",
    "detaching",
    "maintenance",
    "restoring-backup",
    "error_restoring",
    "reserved",
    "awaiting-transfer",
    "backing-up",
    "error_backing-up",
    "error_extending",
    "downloading",
    "uploading",
    "retyping",
    "extending",
]
MigrationStatus = Literal["migrating", "error", "success", "completing", "none", "starting"]


class AttachBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The value of `os-attach`."""

    mountpoint: values.Name
    instance_uuid: values.Uuid | None = None
    host_name: values.Name | None = None
    mode: Literal["rw", "ro"] = "rw"


class DetachBody(Struct, frozen=True):
    """The value of `os-detach`."""

    attachment_id: str | None = None


class ForceDetachBody(Struct, frozen=True):
    """The value of `os-force_detach`."""

    connector: dict[str, Any] | None = None
    attachment_id: str | None = None


class ConnectionBody(Struct, frozen=True):
    """The value of `os-initialize_connection` and `os-terminate_connection`."""

    connector: dict[str, Any] | None


class ResetBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The value of `os-reset_status`."""

    status: Status | Literal["deleting"] | None = None
    attach_status: Literal["attached", "detached"] | None = None
    migration_status: MigrationStatus | None = None


class BootableBody(Struct, frozen=True):
    """The value of `os-set_bootable`."""

    bootable: Flag


class ReadonlyBody(Struct, frozen=True):
    """The value of `os-update_readonly_flag`."""

    readonly: Flag


class ImageMetadataBody(Struct, frozen=True):
    """The value of `os-set_image_metadata`."""

    metadata: Metadata


class ImageKeyBody(Struct, frozen=True):
    """The value of `os-unset_image_metadata`."""

    key: values.Name


@api.action(_PATH, "os-reserve", policy=f"{_ACTIONS}:reserve")
async def reserve(call: Call[Volume]) -> Reply:
    """Reserve it in the legacy flow: it becomes `attaching`."""
    await legacy.reserve(asked(call), call.path["volume_id"])
    return Reply(202)


@api.action(_PATH, "os-unreserve", policy=f"{_ACTIONS}:unreserve")
async def unreserve(call: Call[Volume]) -> Reply:
    """Take a reservation back."""
    await legacy.unreserve(asked(call), call.path["volume_id"])
    return Reply(202)


@api.action(_PATH, "os-begin_detaching", policy=f"{_ACTIONS}:begin_detaching")
async def begin_detaching(call: Call[Volume]) -> Reply:
    """Tell that a detach begins."""
    await legacy.begin_detaching(asked(call), call.path["volume_id"])
    return Reply(202)


@api.action(_PATH, "os-roll_detaching", policy=f"{_ACTIONS}:roll_detaching")
async def roll_detaching(call: Call[Volume]) -> Reply:
    """Tell that a detach was given up."""
    await legacy.roll_detaching(asked(call), call.path["volume_id"])
    return Reply(202)


@api.action(_PATH, "os-attach", AttachBody, policy=f"{_ACTIONS}:attach")
async def attach(call: Call[Volume], body: AttachBody) -> Reply:
    """Tell that a server or host has it."""
    if (body.instance_uuid is None) == (body.host_name is None):
        raise Invalid(
            "Invalid input received: Give either instance_uuid or host_name. Nothing was changed.",
        )
    wanted = legacy.Attach(
        mountpoint=body.mountpoint,
        server_id=body.instance_uuid,
        host_name=body.host_name,
        mode=body.mode,
    )
    await legacy.attach(asked(call), call.path["volume_id"], wanted)
    return Reply(202)


@api.action(_PATH, "os-detach", DetachBody | None, policy=f"{_ACTIONS}:detach")
async def detach(call: Call[Volume], body: DetachBody | None) -> Reply:
    """Tell that a server or host has it no more."""
    attachment_id = body.attachment_id if body else None
    await legacy.detach(asked(call), call.path["volume_id"], attachment_id)
    return Reply(202)


@api.action(_PATH, "os-force_detach", ForceDetachBody, policy=f"{_ADMIN}:force_detach")
async def force_detach(call: Call[Volume], body: ForceDetachBody) -> Reply:
    """Detach, whatever the status."""
    volume_id = call.path["volume_id"]
    await legacy.force_detach(asked(call), volume_id, body.attachment_id, body.connector)
    return Reply(202)


@api.action(
    _PATH, "os-initialize_connection", ConnectionBody, policy=f"{_ACTIONS}:initialize_connection"
)
async def initialize_connection(call: Call[Volume], body: ConnectionBody) -> Reply:
    """Export it to a host."""
    volume_id, connector = call.path["volume_id"], body.connector or {}
    connection = await legacy.initialize_connection(asked(call), volume_id, connector)
    return Reply(200, {"connection_info": connection})


@api.action(
    _PATH, "os-terminate_connection", ConnectionBody, policy=f"{_ACTIONS}:terminate_connection"
)
async def terminate_connection(call: Call[Volume], body: ConnectionBody) -> Reply:
    """End its export to a host."""
    await legacy.terminate_connection(asked(call), call.path["volume_id"], body.connector)
    return Reply(202)


def _check_reset(body: ResetBody) -> None:
    """Raise Invalid for what no volume is reset to."""
    if body.status == "deleting":
        raise Invalid(
            "Invalid input received: A volume cannot be reset to deleting; delete it. Choose one "
            f"of {', '.join(get_args(Status))}.",
        )
    if body == ResetBody():
        raise Invalid(
            "Invalid input received: Give status, attach_status or migration_status.",
        )


@api.action(_PATH, "os-reset_status", ResetBody, policy=f"{_ADMIN}:reset_status")
async def reset_status(call: Call[Volume], body: ResetBody) -> Reply:
    """Set statuses by hand."""
    _check_reset(body)
    reset = properties.Reset(
        status=body.status or "",
        attach_status=body.attach_status or "",
        migration_status=body.migration_status or "",
    )
    await properties.reset_status(asked(call), call.path["volume_id"], reset)
    return Reply(202)


@api.action(_PATH, "os-force_delete", policy=f"{_ADMIN}:force_delete")
async def force_delete(call: Call[Volume]) -> Reply:
    """Delete it in any status but attached."""
    await deleting.delete(asked(call), call.path["volume_id"], force=True)
    return Reply(202)


@api.action(_PATH, "os-set_bootable", BootableBody, policy="volume:update")
async def set_bootable(call: Call[Volume], body: BootableBody) -> Reply:
    """Say whether servers may boot from it."""
    bootable = values.flag(body.bootable, "bootable")
    await properties.set_bootable(asked(call), call.path["volume_id"], bootable=bootable)
    return Reply(200)


@api.action(_PATH, "os-update_readonly_flag", ReadonlyBody, policy="volume:update_readonly_flag")
async def set_readonly(call: Call[Volume], body: ReadonlyBody) -> Reply:
    """Say whether it is attached read-only."""
    readonly = values.flag(body.readonly, "readonly")
    await properties.set_readonly(asked(call), call.path["volume_id"], readonly=readonly)
    return Reply(202)


@api.action(_PATH, "os-set_image_metadata", ImageMetadataBody, policy=f"{_IMAGE}:set")
async def set_image_metadata(call: Call[Volume], body: ImageMetadataBody) -> Reply:
    """Add to what it shows of its image."""
    volume_id, metadata = call.path["volume_id"], values.check_metadata(body.metadata)
    merged = await properties.set_image_metadata(asked(call), volume_id, metadata)
    return Reply(200, {"metadata": merged})


@api.action(_PATH, "os-show_image_metadata", policy=f"{_IMAGE}:show")
async def show_image_metadata(call: Call[Volume]) -> Reply:
    """Show what it shows of its image."""
    volume_id, read = call.path["volume_id"], call.service.store.read
    metadata = await read(lambda tx: volumes.visible(tx, call.who, volume_id).image_metadata)
    return Reply(200, {"metadata": metadata})


@api.action(_PATH, "os-unset_image_metadata", ImageKeyBody, policy=f"{_IMAGE}:remove")
async def unset_image_metadata(call: Call[Volume], body: ImageKeyBody) -> Reply:
    """Remove one item of it."""
    await properties.unset_image_metadata(asked(call), call.path["volume_id"], body.key)
    return Reply(200)
