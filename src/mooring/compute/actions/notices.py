"""The notifications of the compute service: names and payloads (facts/compute.md 12.3).

The payloads are versioned objects of Nova: a name, a version and the data. What this service has no
notion of is empty or null in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Table, select
from sqlalchemy.orm import Session

from mooring.compute.servers import states
from mooring.compute.tables import (
    BlockDevice,
    InstanceAction,
    Server,
    ServerMetadata,
    ServerTag,
    ShareMapping,
)

if TYPE_CHECKING:
    from mooring.compute.service import Compute
    from mooring.errors import MooringError
    from mooring.notify.outbox import Priority

_POWER = {
    states.NOSTATE: "pending",
    states.RUNNING: "running",
    states.PAUSED: "paused",
    states.SHUTDOWN: "shutdown",
    states.CRASHED: "crashed",
    states.SUSPENDED: "suspended",
}
_servers = cast("Table", Server.__table__)
_devices = cast("Table", BlockDevice.__table__)
_mappings = cast("Table", ShareMapping.__table__)
_ACTION = ("InstanceActionPayload", "1.8")
_CREATE = ("InstanceCreatePayload", "1.12")
_REBUILD = ("InstanceActionRebuildPayload", "1.9")
_VOLUME = ("InstanceActionVolumePayload", "1.6")
_SHARE = ("InstanceActionSharePayload", "1.0")


def send(
    tx: Session,
    compute: Compute,
    server_id: str,
    event: str,
    *,
    action_id: int = 0,
    place: tuple[str | None, str | None] | None = None,
    error: MooringError | None = None,
    **more: Any,
) -> None:
    """Send `instance.<event>`, as in "reboot.start", with the server as this transaction sees it.

    `action_id` is the instance action in whose course it happens, 0 when there is none; `place` is
    the host where it happens and its zone, for a server that may have left them; `error` is why, in
    an event that ends in "error", which is sent with priority ERROR; `more` are members that the
    event alone has, as `volume_id`. Does nothing when nobody wants notifications.
    """
    if not compute.outbox.is_on:
        return
    server = _read(tx, server_id)
    if server is None:
        return
    host, zone = place or (server.host, server.zone)
    data = _instance(tx, server) | _initiator(tx, server, action_id)
    data |= {"host": host, "node": host, "availability_zone": zone}
    data |= {"fault": _fault(event, error) if event.endswith(".error") else None, **more}
    kind = _VOLUME if "volume_id" in more else _SHARE if "share_id" in more else _ACTION
    if event.startswith("rebuild."):
        kind, data = _REBUILD, data | {"trusted_image_certificates": server.trusted_certificates}
    if event.startswith("create."):
        kind, data = _CREATE, data | _creation(tx, server)
    publisher = f"nova-compute:{host}" if host else "nova-api"
    priority: Priority = "ERROR" if event.endswith(".error") else "INFO"
    payload = _object(kind, data)
    compute.outbox.send(tx, f"instance.{event}", payload, publisher=publisher, priority=priority)


def send_build_failure(
    tx: Session, compute: Compute, server_id: str, error: MooringError | None
) -> None:
    """Send `compute_task.build_instances.error`: no host took the new server."""
    if not compute.outbox.is_on:
        return
    event = "compute_task.build_instances.error"
    data = {
        "instance_uuid": server_id,
        "request_spec": None,
        "state": "error",
        "reason": _fault(event, error),
    }
    payload = _object(("ComputeTaskPayload", "1.0"), data)
    compute.outbox.send(tx, event, payload, publisher="nova-conductor", priority="ERROR")


def _object(kind: tuple[str, str], data: Mapping[str, Any]) -> dict[str, Any]:
    name, version = kind
    return {
        "nova_object.name": name,
        "nova_object.namespace": "nova",
        "nova_object.version": version,
        "nova_object.data": data,
    }


def _read(tx: Session, server_id: str) -> Any:
    """Return the server's columns as the database has them: updates go around the session's."""
    tx.flush()
    return tx.execute(select(_servers).where(_servers.c.id == server_id)).first()


def _instance(tx: Session, server: Any) -> dict[str, Any]:
    labels = select(ServerMetadata.key, ServerMetadata.value).where(
        ServerMetadata.server_id == server.id
    )
    return {
        "uuid": server.id,
        "user_id": server.user_id,
        "tenant_id": server.project_id,
        "reservation_id": server.reservation_id,
        "display_name": server.name,
        "display_description": server.description,
        "host_name": server.hostname,
        "os_type": None,
        "architecture": None,
        "flavor": _flavor(server),
        "image_uuid": server.image_id,
        "key_name": server.key_name,
        "kernel_id": "",
        "ramdisk_id": "",
        "created_at": _moment(server.created_at),
        "launched_at": _moment(server.launched_at),
        "terminated_at": _moment(server.terminated_at),
        "deleted_at": _moment(server.deleted_at),
        "updated_at": _moment(server.updated_at),
        "state": server.vm_state,
        "power_state": _POWER[server.power_state],
        "task_state": server.task_state,
        "progress": 0,
        "ip_addresses": [],
        "block_devices": _block_devices(tx, server.id),
        "shares": _shares(tx, server.id),
        "metadata": {row.key: row.value for row in tx.execute(labels)},
        "locked": server.locked_by is not None,
        "locked_reason": server.locked_reason,
        "auto_disk_config": server.disk_config,
    }


def _initiator(tx: Session, server: Any, action_id: int) -> dict[str, Any]:
    query = select(
        InstanceAction.user_id, InstanceAction.project_id, InstanceAction.request_id
    ).where(InstanceAction.id == action_id)
    row = tx.execute(query).first() if action_id else None
    return {
        "request_id": row.request_id if row else None,
        "action_initiator_user": row.user_id if row else server.user_id,
        "action_initiator_project": row.project_id if row else server.project_id,
    }


def _flavor(server: Any) -> dict[str, Any]:
    data = {
        "flavorid": server.flavor_id,
        "name": server.flavor_name,
        "memory_mb": server.memory_mib,
        "vcpus": server.vcpus,
        "root_gb": server.disk_gib,
        "ephemeral_gb": server.ephemeral_gib,
        "swap": server.swap_mib,
        "rxtx_factor": 1.0,
        "vcpu_weight": 0,
        "disabled": False,
        "is_public": True,
        "extra_specs": server.extra_specs,
        "projects": None,
        "description": None,
    }
    return _object(("FlavorPayload", "1.4"), data)


def _block_devices(tx: Session, server_id: str) -> list[dict[str, Any]]:
    query = select(_devices).where(
        _devices.c.server_id == server_id, _devices.c.volume_id.is_not(None)
    )
    return [
        _object(
            ("BlockDevicePayload", "1.0"),
            {
                "volume_id": row.volume_id,
                "device_name": row.device_name,
                "tag": row.tag,
                "boot_index": row.boot_index,
                "delete_on_termination": row.delete_on_termination,
            },
        )
        for row in tx.execute(query.order_by(_devices.c.position))
    ]


def _shares(tx: Session, server_id: str) -> list[dict[str, Any]]:
    query = select(_mappings).where(_mappings.c.server_id == server_id)
    return [
        _object(
            ("SharePayload", "1.0"),
            {
                "share_mapping_uuid": row.id,
                "share_id": row.share_id,
                "status": row.status,
                "tag": row.tag,
            },
        )
        for row in tx.execute(query.order_by(_mappings.c.position))
    ]


def _creation(tx: Session, server: Any) -> dict[str, Any]:
    tags = select(ServerTag.tag).where(ServerTag.server_id == server.id).order_by(ServerTag.tag)
    return {
        "keypairs": [],
        "tags": list(tx.execute(tags).scalars()),
        "trusted_image_certificates": server.trusted_certificates,
        "instance_name": f"mooring-{server.id}",
    }


def _fault(event: str, error: MooringError | None) -> dict[str, Any]:
    """Return why something failed: what the user is told, and not what administrators are."""
    data = {
        "exception": type(error).__name__ if error else "Conflict",
        "exception_message": error.public if error else "The operation was ended by an operator.",
        "function_name": event.partition(".")[0],
        "module_name": "mooring.compute",
        "traceback": "",
    }
    return _object(("ExceptionPayload", "1.1"), data)


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")
