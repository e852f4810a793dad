"""What the agent asks the helpers of arrays; both sides import it, and it imports no library."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from mooring.errors import Unavailable

NETAPP_MODULE = "mooring.agent.arrays.netapp"
POWERSTORE_MODULE = "mooring.agent.arrays.powerstore"
"""What the helpers run."""


POWERSTORE_CALLS = 4
"""How many requests one look at a PowerStore's capacity takes: two of them are the login's."""


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
    timeout_s: tuple[float, float]
    """How long one request may take to be connected, and then to be answered."""


def lacks_something(answer: Any) -> Unavailable:
    """Return what to raise where an array's answer has not what its documentation promises."""
    return Unavailable(
        "The array's answer lacks what its documentation promises of a share. See to the rights of "
        "the pool's login and to the array's version; the agent's log has the answer.",
        private=f"It answered {answer}",
    )
