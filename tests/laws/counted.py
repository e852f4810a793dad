"""What the volume service counts a project as using, beside what the project is shown to have."""

from __future__ import annotations

from typing import Any

from tests.laws.sites import VOLUME, Site

_COUNTED = ("volumes", "snapshots", "gigabytes", "backups", "backup_gigabytes")


async def find_uncounted(site: Site) -> list[str]:
    """Return what a quota counts otherwise, once all has ended: then nothing is reserved."""
    project = (await site.get("GET", "/identity/v3/auth/projects"))["projects"][0]["id"]
    path = f"{VOLUME}/os-quota-sets/{project}?usage=True"
    counted = (await site.get("GET", path, user="admin"))["quota_set"]
    volumes = await _list(site, "volumes")
    snapshots = await _list(site, "snapshots")
    backups = await _list(site, "backups")
    there = {
        "volumes": len(volumes),
        "snapshots": len(snapshots),
        "gigabytes": sum(one["size"] for one in [*volumes, *snapshots]),
        "backups": len(backups),
        "backup_gigabytes": sum(one["size"] for one in backups),
    }
    found = {name: (counted[name]["in_use"], counted[name]["reserved"]) for name in _COUNTED}
    return [
        f"of {name} {found[name]} are used and reserved, and there are {there[name]}"
        for name in _COUNTED
        if found[name] != (there[name], 0)
    ]


async def _list(site: Site, kind: str) -> list[dict[str, Any]]:
    return (await site.get("GET", f"{VOLUME}/{kind}/detail"))[kind]
