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

    `families` says what is at a path, in which `*` stands for any segment; some of its paths may be
    built all the same, as lists that are empty. `creations` says what a POST would make at paths
    that have other methods, and `changes` what another method would change there, with its name in
    front. `actions` are the names of those on any resource of the service, or,
    behind a resource's name and a slash, on that one.
    """

    def __init__(
        self,
        families: Mapping[str, str],
        actions: Iterable[str] = (),
        creations: Mapping[str, str] | None = None,
        changes: Mapping[str, str] | None = None,
    ) -> None:
        self.families, self.creations = families, creations or {}
        self.actions = frozenset(actions)
        self._parts = [(path.split("/"), what) for path, what in families.items()]
        methods = {f"POST/{path}": what for path, what in self.creations.items()}
        methods |= {path.replace(" ", "/"): what for path, what in (changes or {}).items()}
        self._methods = [(path.split("/"), what) for path, what in methods.items()]

    def refuse_path(self, parts: Sequence[str]) -> None:
        """Raise Invalid (501, or 410 for what was removed) for a path that is not built."""
        for wanted, what in self._parts:
            here = parts[: len(wanted)]
            if len(here) == len(wanted) and all(map(_fits, wanted, here)):
                raise _not_built(what, wanted[-1])

    def refuse_method(self, method: str, parts: Sequence[str]) -> None:
        """Raise Invalid, likewise, for a method that is not built, at a path that has others."""
        for (needed, *wanted), what in self._methods:
            if method == needed and len(parts) == len(wanted) and all(map(_fits, wanted, parts)):
                raise _not_built(what, f"{method} {wanted[0]}")

    def refuse_action(self, name: str, resource: str) -> None:
        """Raise Invalid (501) for an action that is not built on a resource (`servers`)."""
        if name in self.actions or f"{resource}/{name}" in self.actions:
            raise Invalid(
                f"The action {name} is not built in this cloud. Nothing was changed.", status=501
            )


def _not_built(what: str, name: str) -> Invalid:
    if what == _REMOVED:
        return Invalid(f"{name} was {what}.", status=410)
    return Invalid(f"{what} are not built in this cloud. Nothing was changed.", status=501)


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
# Where its cache is off, Glance answers as for an unknown path, and below 2.17 so for locations:
# 501 is as much of a no to clients, and says why.
IMAGE = Unbuilt(
    {
        "cache": "Caches of the image service",
        "cached_images": "Caches of the image service",
        "images/*/import": "Imports of images (upload the file)",
        "images/*/locations": "Locations of images",
        "images/*/stage": "Imports of images (upload the file)",
        "info/stores/detail": "Several stores",
        "metadefs": "Catalogues of metadata",
        "queued_images": "Caches of the image service",
        "schemas/metadefs/*": "Catalogues of metadata",
        "stores": "Several stores",
        "tasks": "Tasks",
    }
)
VOLUME = Unbuilt(
    {
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
_LISTED = {
    "security-services": "Security services",
    "share-backups": "Backups of shares",
    "share-groups": "Groups of shares",
    "share-networks": "Networks of shares",
    "share-replicas": "Replicas of shares",
    "share-servers": "Servers of shares",
    "share-transfers": "Transfers of shares",
}
"""What is listed as none: stock clients ask for it on their way to other things."""
SHARE = Unbuilt(
    {
        **_LISTED,
        "cgsnapshots": _REMOVED,
        "consistency-groups": _REMOVED,
        "os-share-manage": "Shares that were made outside",
        "os-share-unmanage": "Shares that go on outside",
        "qos-types": "QoS types",
        "share-group-snapshots": "Groups of shares",
        "share-group-types": "Groups of shares",
        "snapshot-instances": "Instances of snapshots",
        "snapshots/*/access-list": "Mountable snapshots",
        "snapshots/*/unmanage": "Snapshots that go on outside",
    },
    actions=(
        "migration_cancel",
        "migration_complete",
        "migration_get_progress",
        "migration_start",
        "os-unmanage",
        "restore",
        "revert",
        "snapshots/allow_access",
        "snapshots/deny_access",
        "soft_delete",
        "unmanage",
    ),
    creations={
        **_LISTED,
        "shares/manage": "Shares that were made outside",
        "snapshots/manage": "Snapshots that were made outside",
    },
)
COMPUTE = Unbuilt(
    {
        "images": "Images by way of compute (ask the image service)",
        "os-agents": _REMOVED,
        "os-baremetal-nodes": "Bare-metal nodes",
        "os-cells": _REMOVED,
        "os-certificates": _REMOVED,
        "os-cloudpipe": _REMOVED,
        "os-fixed-ips": _REMOVED,
        "os-floating-ip-dns": _REMOVED,
        "os-floating-ips-bulk": _REMOVED,
        "os-fping": _REMOVED,
        "os-hosts": "Hosts by the older API (see `openstack compute service list`)",
        "os-instance_usage_audit_log": "Audits of usage",
        "os-networks/*/action": _REMOVED,
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
    },
    creations={"os-networks/add": _REMOVED},
    changes={
        "DELETE os-floating-ips/*": "Floating addresses",
        "DELETE os-networks/*": _REMOVED,
        "DELETE os-security-groups/*": "Security groups",
        "PUT os-security-groups/*": "Security groups",
    },
)
NOTHING = Unbuilt({})
