"""What clients ask for and nobody has here: lists that are empty, so that stock commands say so.

Source: facts/shared_file_systems.md 8.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from mooring.share.service import Share
from mooring.web.api import Api, Call, Reply, Version

api = Api[Share]()

_LISTS: Mapping[str, tuple[str, Version | None, str]] = {
    "share-networks": ("share_networks", None, "share:get_all"),
    "share-networks/detail": ("share_networks", None, "share:get_all"),
    "security-services": ("security_services", None, "share:get_all"),
    "security-services/detail": ("security_services", None, "share:get_all"),
    "share-servers": ("share_servers", None, "share_instance:index"),
    "share-replicas": ("share_replicas", (2, 56), "share:get_all"),
    "share-replicas/detail": ("share_replicas", (2, 56), "share:get_all"),
    "share-groups": ("share_groups", (2, 55), "share:get_all"),
    "share-groups/detail": ("share_groups", (2, 55), "share:get_all"),
    "share-transfers": ("transfers", (2, 77), "share:get_all"),
    "share-transfers/detail": ("transfers", (2, 77), "share:get_all"),
    "share-backups": ("share_backups", (2, 80), "share:get_all"),
    "share-backups/detail": ("share_backups", (2, 80), "share:get_all"),
}
"""By path: the list's name, the version that has it, and the rule that guards it."""


def _empty(name: str) -> Callable[[Call[Share]], Awaitable[Reply]]:
    async def list_none(call: Call[Share]) -> Reply:
        """List none: there are none here."""
        return Reply(200, {name: []})

    return list_none


for path, (name, since, policy) in _LISTS.items():
    api.get(f"/{path}", policy=policy, since=since)(_empty(name))
