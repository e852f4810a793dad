"""Whether several volumes of a pool reach a host by one connection (facts/block_storage.md 2.8).

Where they do, a host that lets go of one volume must not meet itself as it connects another.
"""

from __future__ import annotations

_SHARING = frozenset({"iscsi", "iser"})
_MOUNTED = frozenset({"nfs", "quobyte"})
_UNKNOWN = frozenset({"nvme-of", "nvmeof"})


def are_shared(protocol: str) -> bool | None:
    """Return it for the protocol that a driver says its pool speaks; None: nobody can tell."""
    word = protocol.lower()
    return None if word in _UNKNOWN else word in _SHARING


def are_reached_by_one(protocol: str) -> bool | None:
    """Return whether a host reaches several volumes of a pool by one connection of any kind.

    A share that is mounted is one, which needs no lock of clients: whoever mounts it guards it.
    """
    return protocol.lower() in _MOUNTED or are_shared(protocol)
