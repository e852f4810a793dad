"""/limits: what a project may use, and uses (facts/compute.md 11.3)."""

from __future__ import annotations

from sqlalchemy.orm import Session

from mooring.compute.groups import groups
from mooring.compute.quotas import quota
from mooring.compute.quotas.quota import Usage
from mooring.compute.service import Compute
from mooring.compute.wire.api import queries
from mooring.web.api import Api, Call, Reply, Version

api = Api[Compute]()

_RULE = "os_compute_api:limits"
_NAMES = {
    "maxTotalInstances": "instances",
    "maxTotalCores": "cores",
    "maxTotalRAMSize": "ram",
    "maxTotalKeypairs": "key_pairs",
    "maxServerMeta": "metadata_items",
    "maxServerGroups": "server_groups",
    "maxServerGroupMembers": "server_group_members",
}


def _show_used(used: Usage, group_count: int) -> dict[str, int]:
    """Show what a project has of what is limited."""
    return {
        "totalInstancesUsed": used.instances,
        "totalCoresUsed": used.cores,
        "totalRAMUsed": used.ram,
        "totalServerGroupsUsed": group_count,
    }


@api.get("/limits", policy=_RULE)
async def show_limits(call: Call[Compute]) -> Reply:
    """Return the caller's limits; those of another project only to administrators."""
    queries.check_keys(call, ("reserved", "tenant_id"), strict_since=(2, 75))
    project_id = call.query.get("tenant_id", "") or call.who.project_id
    if project_id != call.who.project_id:
        call.require(f"{_RULE}:other_project", {"project_id": project_id})

    def read(tx: Session) -> tuple[dict[str, int], Usage, int]:
        used = quota.sum_usage(tx, project_id)
        return quota.find_limits(tx, project_id), used, groups.count(tx, project_id)

    limits, used, group_count = await call.service.store.read(read)
    absolute = {name: limits[resource] for name, resource in _NAMES.items()}
    absolute |= _show_used(used, group_count) | _older(limits, call.version)
    return Reply(200, {"limits": {"rate": [], "absolute": absolute}})


def _older(limits: dict[str, int], version: Version) -> dict[str, int]:
    """Return what later versions do not show any more."""
    body: dict[str, int] = {}
    if version <= (2, 56):
        body["maxPersonality"] = limits["injected_files"]
        body["maxPersonalitySize"] = limits["injected_file_content_bytes"]
    if version <= (2, 38):
        body["maxImageMeta"] = limits["metadata_items"]
    if version <= (2, 35):
        # There is no network service, so nothing of it can be used up.
        unlimited = ("maxTotalFloatingIps", "maxSecurityGroups", "maxSecurityGroupRules")
        body |= dict.fromkeys(unlimited, -1)
        body |= dict.fromkeys(("totalFloatingIpsUsed", "totalSecurityGroupsUsed"), 0)
    return body
