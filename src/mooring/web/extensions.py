"""/extensions: the parts of an API that upstream calls extensions, under its aliases.

Each is there because its route is, which a test holds. Source: facts/compute.md 10.2,
facts/block_storage.md 7.3 and 9.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring.errors import NotFound

_UPDATED = "2014-12-03T00:00:00Z"
"""What upstream says of all of them since they are no more than a list."""

COMPUTE: Mapping[str, tuple[str, str]] = {
    "os-admin-actions": ("AdminActions", "POST /servers/{server_id}/action os-resetState"),
    "os-aggregates": ("Aggregates", "GET /os-aggregates"),
    "os-assisted-volume-snapshots": (
        "AssistedVolumeSnapshots",
        "POST /os-assisted-volume-snapshots",
    ),
    "os-availability-zone": ("AvailabilityZone", "GET /os-availability-zone"),
    "os-console-output": ("ConsoleOutput", "POST /servers/{server_id}/action os-getConsoleOutput"),
    "os-create-backup": ("CreateBackup", "POST /servers/{server_id}/action createBackup"),
    "os-evacuate": ("Evacuate", "POST /servers/{server_id}/action evacuate"),
    "os-flavor-access": ("FlavorAccess", "GET /flavors/{flavor_id}/os-flavor-access"),
    "os-flavor-extra-specs": ("FlavorExtraSpecs", "GET /flavors/{flavor_id}/os-extra_specs"),
    "os-flavor-manage": ("FlavorManage", "POST /flavors"),
    "os-hypervisors": ("Hypervisors", "GET /os-hypervisors"),
    "os-instance-actions": ("InstanceActions", "GET /servers/{server_id}/os-instance-actions"),
    "os-keypairs": ("Keypairs", "GET /os-keypairs"),
    "os-lock-server": ("LockServer", "POST /servers/{server_id}/action lock"),
    "os-migrate-server": ("MigrateServer", "POST /servers/{server_id}/action os-migrateLive"),
    "os-migrations": ("Migrations", "GET /os-migrations"),
    "os-pause-server": ("PauseServer", "POST /servers/{server_id}/action pause"),
    "os-quota-class-sets": ("QuotaClasses", "GET /os-quota-class-sets/{name}"),
    "os-quota-sets": ("Quotas", "GET /os-quota-sets/{project_id}"),
    "os-rescue": ("Rescue", "POST /servers/{server_id}/action rescue"),
    "os-server-external-events": ("ServerExternalEvents", "POST /os-server-external-events"),
    "os-server-groups": ("ServerGroups", "GET /os-server-groups"),
    "os-server-start-stop": ("ServerStartStop", "POST /servers/{server_id}/action os-start"),
    "os-services": ("Services", "GET /os-services"),
    "os-shelve": ("Shelve", "POST /servers/{server_id}/action shelve"),
    "os-simple-tenant-usage": ("SimpleTenantUsage", "GET /os-simple-tenant-usage"),
    "os-suspend-server": ("SuspendServer", "POST /servers/{server_id}/action suspend"),
    "os-used-limits": ("UsedLimits", "GET /limits"),
    "os-volumes": ("Volumes", "GET /servers/{server_id}/os-volume_attachments"),
}
"""By alias: the name, and the route that it stands for."""

VOLUME: Mapping[str, tuple[str, str]] = {
    "backups": ("Backups", "GET /backups"),
    "os-admin-actions": ("AdminActions", "POST /volumes/{volume_id}/action os-reset_status"),
    "os-availability-zone": ("AvailabilityZones", "GET /os-availability-zone"),
    "os-quota-class-sets": ("QuotaClasses", "GET /os-quota-class-sets/{class_name}"),
    "os-quota-sets": ("Quotas", "GET /os-quota-sets/{project_id}"),
    "os-services": ("Services", "GET /os-services"),
    "os-snapshot-actions": (
        "SnapshotActions",
        "POST /snapshots/{snapshot_id}/action os-update_snapshot_status",
    ),
    "os-types-extra-specs": ("TypesExtraSpecs", "GET /types/{type_id}/extra_specs"),
    "os-types-manage": ("TypesManage", "POST /types"),
    "os-used-limits": ("UsedLimits", "GET /limits"),
    "os-vol-image-meta": (
        "VolumeImageMetadata",
        "POST /volumes/{volume_id}/action os-show_image_metadata",
    ),
    "os-volume-actions": ("VolumeActions", "POST /volumes/{volume_id}/action os-extend"),
    "os-volume-encryption-metadata": (
        "VolumeEncryptionMetadata",
        "GET /volumes/{volume_id}/encryption",
    ),
    "os-volume-transfer": ("VolumeTransfer", "POST /os-volume-transfer"),
    "os-volume-type-access": ("VolumeTypeAccess", "GET /types/{type_id}/os-volume-type-access"),
    "scheduler-stats": ("Scheduler_stats", "GET /scheduler-stats/get_pools"),
}
"""The same of the volume service."""


def show_all(known: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """Return the body of the list."""
    return {"extensions": [_show(known, alias) for alias in known]}


def show(known: Mapping[str, tuple[str, str]], alias: str) -> dict[str, Any]:
    """Return the body of one. Raises NotFound."""
    if alias not in known:
        raise NotFound(f"Extension {alias[:64]} could not be found.")
    return {"extension": _show(known, alias)}


def _show(known: Mapping[str, tuple[str, str]], alias: str) -> dict[str, Any]:
    name, _ = known[alias]
    return {
        "alias": alias,
        "name": name,
        "description": "",
        "updated": _UPDATED,
        "namespace": "",
        "links": [],
    }
