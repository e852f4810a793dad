"""What the agent asks the helpers of arrays; both sides import it, and it imports no library."""

from __future__ import annotations

from msgspec import Struct

NETAPP_MODULE = "mooring.agent.arrays.netapp"
POWERSTORE_MODULE = "mooring.agent.arrays.powerstore"
"""What the helpers run."""


class NetappAccess(Struct, frozen=True, kw_only=True):
    """How to reach an ONTAP cluster, and the path of a share on it. A secret."""

    host: str
    port: int
    scheme: str
    login: str
    password: str
    certificates: str
    """A file of authorities to trust, or empty."""
    vserver: str
    path: str
    timeout_s: int


class NetappClone(Struct, frozen=True, kw_only=True):
    """Clone one file of the share to another name on it; both relative to the share."""

    access: NetappAccess
    source: str
    target: str


class PowerstoreAccess(Struct, frozen=True, kw_only=True):
    """How to reach a PowerStore, and the name of an NFS export on it. A secret."""

    host: str
    port: int
    login: str
    password: str
    verify: bool
    certificates: str
    export: str
