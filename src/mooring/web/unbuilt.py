"""What OpenStack's services have and this cloud's do not: said, not answered as an unknown path.

Source: facts/compute.md 10.1 and 10.2, facts/block_storage.md 8.1 to 8.6,
facts/identity_image_placement.md 4.3 and 8.3, facts/shared_file_systems.md 8.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_ANY = "*"
_REMOVED = "removed from the API of OpenStack"
"""What stands for resources that no OpenStack of today has either (410)."""


class Unbuilt:
    """The paths of one service that are not built, with all below them.

    `families` says what is at a path, in which `*` stands for any segment. `actions` are the names
    of those on its resources.
    """

    def __init__(self, families: Mapping[str, str], actions: Iterable[str] = ()) -> None:
        self.families = families
        self.actions = frozenset(actions)
        self._parts = [(path.split("/"), what) for path, what in families.items()]

    def refuse_path(self, parts: Sequence[str]) -> None:
        """Raise Invalid (501, or 410 for what was removed) for a path that is not built."""
        for wanted, what in self._parts:
            here = parts[: len(wanted)]
            if len(here) == len(wanted) and all(map(_fits, wanted, here)):
                if what == _REMOVED:
                    raise Invalid(f"{wanted[-1]} was {what}.", status=410)
                raise Invalid(
                    f"{what} are not built in this cloud. Nothing was changed.", status=501
                )

    def refuse_action(self, name: str) -> None:
        """Raise Invalid (501) for an action that is not built."""
        if name in self.actions:
            raise Invalid(
                f"The action {name} is not built in this cloud. Nothing was changed.", status=501
            )


def _fits(wanted: str, part: str) -> bool:
    return wanted in {_ANY, part}


IDENTITY = Unbuilt(
    {
        "OS-EP-FILTER": "Filters of endpoints",
        "OS-FEDERATION": "Federated identities",
        "OS-INHERIT": "Inherited roles",
        "OS-OAUTH1": "OAuth consumers",
        "OS-OAUTH2": "OAuth tokens",
        "OS-REVOKE": "Lists of revoked tokens",
        "OS-SIMPLE-CERT": _REMOVED,
        "OS-TRUST": "Trusts",
        "auth/OS-FEDERATION": "Federated identities",
        "auth/tokens/OS-PKI": _REMOVED,
        "credentials": "Stored credentials",
        "domains/*/config": "Configurations of domains",
        "domains/config/*": "Configurations of domains",
        "ec2tokens": "EC2 credentials",
        "endpoints/*/OS-ENDPOINT-POLICY": "Policies of endpoints",
        "policies": "Stored policies",
        "s3tokens": "EC2 credentials",
        "users/*/access_rules": "Access rules of application credentials",
        "users/*/OS-OAUTH1": "OAuth tokens",
        "users/*/credentials": "EC2 credentials",
    }
)
IMAGE = Unbuilt(
    {
        "images/*/import": "Imports of images (upload the file)",
        "images/*/stage": "Imports of images (upload the file)",
        "info/stores/detail": "Several stores",
        "metadefs": "Catalogues of metadata",
        "schemas/metadefs/*": "Catalogues of metadata",
        "stores": "Several stores",
        "tasks": "Tasks",
    }
)
VOLUME = Unbuilt(
    {
        "backups/*/export_record": "Records of backups",
        "capabilities": "Capabilities of backends",
        "cgsnapshots": "Groups of volumes",
        "clusters": "Clusters of volume services",
        "consistencygroups": "Groups of volumes",
        "default-types": "Default types of projects",
        "group_snapshots": "Groups of volumes",
        "group_types": "Groups of volumes",
        "groups": "Groups of volumes",
        "manageable_snapshots": "Snapshots that were made outside",
        "manageable_volumes": "Volumes that were made outside",
        "os-hosts": "Hosts (see `openstack volume service list`)",
        "os-services/failover": "Failovers of backends",
        "os-services/failover_host": "Failovers of backends",
        "os-services/freeze": "Frozen backends",
        "os-services/get-log": "Levels of logs by the API",
        "os-services/set-log": "Levels of logs by the API",
        "os-services/thaw": "Frozen backends",
        "os-snapshot-manage": "Snapshots that were made outside",
        "os-volume-manage": "Volumes that were made outside",
        "qos-specs": "QoS specifications",
        "resource_filters": "Lists of filters",
        "types/*/encryption": "Encrypted volumes",
        "workers": "Clean-ups by hand (every operation ends by itself)",
    },
    actions=("os-unmanage",),
)
SHARE = Unbuilt(
    {
        "qos-types": "QoS types",
        "share-group-snapshots": "Groups of shares",
        "share-group-types": "Groups of shares",
        "snapshot-instances": "Instances of snapshots",
    },
    actions=(
        "migration_cancel",
        "migration_complete",
        "migration_get_progress",
        "migration_start",
        "os-unmanage",
        "restore",
        "revert",
        "soft_delete",
        "unmanage",
    ),
)
COMPUTE = Unbuilt(
    {
        "images": "Images by way of compute (ask the image service)",
        "os-agents": _REMOVED,
        "os-baremetal-nodes": "Bare-metal nodes",
        "os-cells": _REMOVED,
        "os-certificates": _REMOVED,
        "os-cloudpipe": _REMOVED,
        "os-console-auth-tokens": "Remote consoles",
        "os-fixed-ips": _REMOVED,
        "os-floating-ip-dns": _REMOVED,
        "os-floating-ips-bulk": _REMOVED,
        "os-fping": _REMOVED,
        "os-hosts": "Hosts by the older API (see `openstack compute service list`)",
        "os-instance_usage_audit_log": "Audits of usage",
        "os-security-group-default-rules": _REMOVED,
        "os-security-group-rules": "Rules of security groups",
        "os-snapshots": "Snapshots by way of compute (ask the volume service)",
        "os-tenant-networks": "Networks",
        "os-volume-types": "Volume types by way of compute (ask the volume service)",
        "os-volumes": "Volumes by way of compute (ask the volume service)",
        "os-volumes_boot": "Servers by the older path (ask /servers)",
        "servers/*/consoles": _REMOVED,
        "servers/*/os-server-password": "Passwords that guests encrypt",
        "servers/*/os-virtual-interfaces": "Virtual interfaces",
        "servers/*/topology": "NUMA topologies",
    }
)
NOTHING = Unbuilt({})
