"""What compute told of networks up to 2.35, and clients still ask where no network service is.

There are no networks, one security group by name only, and nothing of it can be made: a guest has
outgoing NAT or nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mooring.compute.service import Compute
from mooring.errors import Invalid, NotFound
from mooring.web.api import Api, Call, Reply, Version

api = Api[Compute]()

LAST: Version = (2, 35)
_RULE = "os_compute_api:"
_ONE = "default"

COLLECTIONS: Sequence[tuple[str, str, str, str]] = (
    ("os-networks", "networks", "list", "Networks"),
    ("os-floating-ips", "floating_ips", "list", "Floating addresses"),
    ("os-security-groups", "security_groups", "get", "Security groups"),
)
"""Path, key of the list, the rule's word for listing, and what they are called."""


def _lister(key: str) -> Callable[[Call[Compute]], Awaitable[Reply]]:
    async def list_all(call: Call[Compute]) -> Reply:
        return Reply(200, {key: _all(key, call)})

    return list_all


def _shower(key: str, what: str) -> Callable[[Call[Compute]], Awaitable[Reply]]:
    async def show(call: Call[Compute]) -> Reply:
        wanted = call.path["identifier"]
        for one in _all(key, call):
            if wanted == one["id"]:
                return Reply(200, {key.removesuffix("s"): one})
        raise NotFound(f"{what}: {wanted} could not be found. This cloud has no network service.")

    return show


def _refuser(what: str) -> Callable[[Call[Compute], Any], Awaitable[Reply]]:
    async def refuse(call: Call[Compute], body: Any) -> Reply:
        raise Invalid(
            f"{what} cannot be made: this cloud has no network service. Nothing was changed.",
            status=501,
        )

    return refuse


def _all(key: str, call: Call[Compute]) -> list[dict[str, Any]]:
    if key != "security_groups":
        return []
    group: dict[str, Any] = {
        "id": _ONE,
        "name": _ONE,
        "description": "What every server has: nobody outside can open a connection to it.",
        "tenant_id": call.who.project_id,
        "rules": [],
    }
    return [group]


for _path, _key, _list, _what in COLLECTIONS:
    api.get(f"/{_path}", policy=f"{_RULE}{_path}:{_list}", until=LAST)(_lister(_key))
    api.get(f"/{_path}/{{identifier}}", policy=f"{_RULE}{_path}:show", until=LAST)(
        _shower(_key, _what)
    )
    api.post(f"/{_path}", Any, policy=f"{_RULE}{_path}:create", until=LAST)(_refuser(_what))


@api.get("/os-floating-ip-pools", policy=f"{_RULE}os-floating-ip-pools", until=LAST)
async def list_pools(call: Call[Compute]) -> Reply:
    """No pool."""
    return Reply(200, {"floating_ip_pools": []})
