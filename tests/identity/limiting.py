"""Registered limits and limits, made and looked at by an administrator unless told."""

from __future__ import annotations

from typing import Any

from tests.identity.cloud import IdentityCloud


async def image_service(cloud: IdentityCloud) -> str:
    [row] = (await cloud.get("/services?type=image"))["services"]
    return row["id"]


async def register(cloud: IdentityCloud, name: str = "widgets", **given: Any) -> Any:
    """Register a limit of 10 for the image service, and return it."""
    body = {"service_id": await image_service(cloud), "resource_name": name, "default_limit": 10}
    [made] = await cloud.make("/registered_limits", {"registered_limits": [{**body, **given}]})
    return made


async def limit(cloud: IdentityCloud, registered: Any, amount: int = 3, **owner: Any) -> Any:
    """Make a limit of what is registered, of the project `demo` unless told, and return it."""
    owner = owner or {"project_id": await cloud.id_of("projects", "demo")}
    [made] = await cloud.make("/limits", {"limits": [wish(registered, amount, **owner)]})
    return made


def wish(registered: Any, amount: int = 3, **owner: Any) -> dict[str, Any]:
    named = {name: registered[name] for name in ("service_id", "region_id", "resource_name")}
    return {**named, "resource_limit": amount, **owner}


async def write(cloud: IdentityCloud, method: str, path: str, body: Any = None) -> int:
    return (await cloud.ask(method, path, body, user="admin")).status


async def ids(cloud: IdentityCloud, path: str, *, user: str = "admin") -> list[str]:
    """Return the ids that a list has, in its order."""
    body = await cloud.get(path, user=user)
    rows = body.get("limits", body.get("registered_limits"))
    return [row["id"] for row in rows]
