"""/extensions: the parts of an API that upstream calls extensions, under its aliases.

Each is there because its route is, which a test holds. Source: facts/compute.md 10.2,
facts/block_storage.md 7.3 and 9.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from mooring.errors import NotFound

_UPDATED = "2014-12-03T00:00:00Z"
"""What upstream says of all of them since they are no more than a list."""


class Extension(Struct, frozen=True):
    """One extension: `route` is what it stands for, `description` a sentence for its users."""

    name: str
    route: str
    description: str


COMPUTE: Mapping[str, Extension] = {
    "os-admin-actions": Extension(
        "AdminActions",
        "POST /servers/{server_id}/action os-resetState",
        "Administrators set the state of a server by hand.",
    ),
    "os-aggregates": Extension(
        "Aggregates",
        "GET /os-aggregates",
        "Groups of hosts that administrators make, with metadata by which flavors choose hosts.",
    ),
    "os-assisted-volume-snapshots": Extension(
        "AssistedVolumeSnapshots",
        "POST /os-assisted-volume-snapshots",
        "The volume service has snapshots taken of volumes that guests use.",
    ),
    "os-availability-zone": Extension(
        "AvailabilityZone",
        "GET /os-availability-zone",
        "The zones in which servers may be made.",
    ),
    "os-console-output": Extension(
        "ConsoleOutput",
        "POST /servers/{server_id}/action os-getConsoleOutput",
        "What a guest has written to its serial console.",
    ),
    "os-create-backup": Extension(
        "CreateBackup",
        "POST /servers/{server_id}/action createBackup",
        "Images of a server of which the oldest go when there are enough.",
    ),
    "os-evacuate": Extension(
        "Evacuate",
        "POST /servers/{server_id}/action evacuate",
        "Servers of a dead host start on another one.",
    ),
    "os-flavor-access": Extension(
        "FlavorAccess",
        "GET /flavors/{flavor_id}/os-flavor-access",
        "Which projects may use a flavor that is not public.",
    ),
    "os-flavor-extra-specs": Extension(
        "FlavorExtraSpecs",
        "GET /flavors/{flavor_id}/os-extra_specs",
        "What a flavor asks of the host and of the guest's machine, by key and value.",
    ),
    "os-flavor-manage": Extension(
        "FlavorManage",
        "POST /flavors",
        "Administrators make, change and delete flavors.",
    ),
    "os-hypervisors": Extension(
        "Hypervisors",
        "GET /os-hypervisors",
        "The hosts with what they have and what of it is in use.",
    ),
    "os-instance-actions": Extension(
        "InstanceActions",
        "GET /servers/{server_id}/os-instance-actions",
        "What was done with a server, by whom, and how each step of it ended.",
    ),
    "os-keypairs": Extension(
        "Keypairs",
        "GET /os-keypairs",
        "Public SSH keys that new servers let in.",
    ),
    "os-lock-server": Extension(
        "LockServer",
        "POST /servers/{server_id}/action lock",
        "Servers that are kept as they are until they are unlocked.",
    ),
    "os-migrate-server": Extension(
        "MigrateServer",
        "POST /servers/{server_id}/action os-migrateLive",
        "Administrators move servers to other hosts, while they run or not.",
    ),
    "os-migrations": Extension(
        "Migrations",
        "GET /os-migrations",
        "The moves of servers from host to host, and how each went.",
    ),
    "os-pause-server": Extension(
        "PauseServer",
        "POST /servers/{server_id}/action pause",
        "Guests that stand still and stay in their host's memory.",
    ),
    "os-quota-class-sets": Extension(
        "QuotaClasses",
        "GET /os-quota-class-sets/{name}",
        "How much each project may have that has no quota of its own.",
    ),
    "os-quota-sets": Extension(
        "Quotas",
        "GET /os-quota-sets/{project_id}",
        "How much a project may have, and how much of that it uses.",
    ),
    "os-rescue": Extension(
        "Rescue",
        "POST /servers/{server_id}/action rescue",
        "Servers that start from another image, to mend what is on their own disk.",
    ),
    "os-server-external-events": Extension(
        "ServerExternalEvents",
        "POST /os-server-external-events",
        "Other services tell what has happened to what a server uses.",
    ),
    "os-server-groups": Extension(
        "ServerGroups",
        "GET /os-server-groups",
        "Servers that are to be on one host, or each on another.",
    ),
    "os-server-start-stop": Extension(
        "ServerStartStop",
        "POST /servers/{server_id}/action os-start",
        "Servers that are switched on and shut down.",
    ),
    "os-services": Extension(
        "Services",
        "GET /os-services",
        "The services behind the API on each host; administrators keep a host from new servers.",
    ),
    "os-shelve": Extension(
        "Shelve",
        "POST /servers/{server_id}/action shelve",
        "Servers that are put away, take up no host, and come back as they were.",
    ),
    "os-simple-tenant-usage": Extension(
        "SimpleTenantUsage",
        "GET /os-simple-tenant-usage",
        "What the servers of a project have used over a time.",
    ),
    "os-suspend-server": Extension(
        "SuspendServer",
        "POST /servers/{server_id}/action suspend",
        "Guests whose memory is written to disk until they go on.",
    ),
    "os-used-limits": Extension(
        "UsedLimits",
        "GET /limits",
        "How much of its limits a project has used.",
    ),
    "os-volumes": Extension(
        "Volumes",
        "GET /servers/{server_id}/os-volume_attachments",
        "Volumes that are attached to servers and taken from them.",
    ),
}
"""By alias."""

VOLUME: Mapping[str, Extension] = {
    "backups": Extension(
        "Backups",
        "GET /backups",
        "Copies of volumes apart from their pools, from which volumes are restored.",
    ),
    "os-admin-actions": Extension(
        "AdminActions",
        "POST /volumes/{volume_id}/action os-reset_status",
        "Administrators set the status of a volume by hand, and delete or detach it by force.",
    ),
    "os-availability-zone": Extension(
        "AvailabilityZones",
        "GET /os-availability-zone",
        "The zones in which volumes may be made.",
    ),
    "os-quota-class-sets": Extension(
        "QuotaClasses",
        "GET /os-quota-class-sets/{class_name}",
        "How much each project may have that has no quota of its own.",
    ),
    "os-quota-sets": Extension(
        "Quotas",
        "GET /os-quota-sets/{project_id}",
        "How much a project may have, and how much of that it uses.",
    ),
    "os-services": Extension(
        "Services",
        "GET /os-services",
        "The services behind the API on each host; administrators keep a host from new volumes.",
    ),
    "os-snapshot-actions": Extension(
        "SnapshotActions",
        "POST /snapshots/{snapshot_id}/action os-update_snapshot_status",
        "The compute service tells how a snapshot of a volume went that a guest uses.",
    ),
    "os-types-extra-specs": Extension(
        "TypesExtraSpecs",
        "GET /types/{type_id}/extra_specs",
        "What a volume type asks of the pool, by key and value.",
    ),
    "os-types-manage": Extension(
        "TypesManage",
        "POST /types",
        "Administrators make, change and delete volume types.",
    ),
    "os-used-limits": Extension(
        "UsedLimits",
        "GET /limits",
        "How much of its limits a project has used.",
    ),
    "os-vol-image-meta": Extension(
        "VolumeImageMetadata",
        "POST /volumes/{volume_id}/action os-show_image_metadata",
        "What a volume says of the image that it was made from.",
    ),
    "os-volume-actions": Extension(
        "VolumeActions",
        "POST /volumes/{volume_id}/action os-extend",
        "What is done with a volume that is there: extended, retyped, reverted, made an image.",
    ),
    "os-volume-encryption-metadata": Extension(
        "VolumeEncryptionMetadata",
        "GET /volumes/{volume_id}/encryption",
        "Whether a volume is encrypted, and how.",
    ),
    "os-volume-transfer": Extension(
        "VolumeTransfer",
        "POST /os-volume-transfer",
        "Volumes that one project offers and another one accepts.",
    ),
    "os-volume-type-access": Extension(
        "VolumeTypeAccess",
        "GET /types/{type_id}/os-volume-type-access",
        "Which projects may use a volume type that is not public.",
    ),
    "scheduler-stats": Extension(
        "Scheduler_stats",
        "GET /scheduler-stats/get_pools",
        "The pools of storage with what they have room for and what they can.",
    ),
}
"""The same of the volume service."""


def show_all(known: Mapping[str, Extension]) -> dict[str, Any]:
    """Return the body of the list."""
    return {"extensions": [_show(known, alias) for alias in known]}


def show(known: Mapping[str, Extension], alias: str) -> dict[str, Any]:
    """Return the body of one. Raises NotFound."""
    if alias not in known:
        raise NotFound(f"Extension {alias[:64]} could not be found.")
    return {"extension": _show(known, alias)}


def _show(known: Mapping[str, Extension], alias: str) -> dict[str, Any]:
    one = known[alias]
    return {
        "alias": alias,
        "name": one.name,
        "description": one.description,
        "updated": _UPDATED,
        "namespace": "",
        "links": [],
    }
