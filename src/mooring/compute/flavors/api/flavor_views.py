"""A flavor as each microversion shows it (facts/compute.md 11.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from mooring.compute.service import Compute
from mooring.compute.tables import Flavor
from mooring.web.api import Call

View: TypeAlias = Callable[[Flavor, Call[Compute]], dict[str, Any]]

_SPECS = "os_compute_api:os-flavor-extra-specs:index"


def brief(flavor: Flavor, call: Call[Compute]) -> dict[str, Any]:
    """Return what a list without detail shows."""
    body: dict[str, Any] = {
        "id": flavor.id,
        "name": flavor.name,
        "links": [
            {"rel": "self", "href": call.url(f"/flavors/{flavor.id}")},
            {"rel": "bookmark", "href": call.bookmark(f"/flavors/{flavor.id}")},
        ],
    }
    if call.version >= (2, 55):
        body["description"] = flavor.description
    return body


def whole(flavor: Flavor, call: Call[Compute]) -> dict[str, Any]:
    """Return everything that the caller's version shows; extra specs by policy."""
    version = call.version
    body = brief(flavor, call)
    body |= {
        "ram": flavor.memory_mib,
        "disk": flavor.disk_gib,
        "vcpus": flavor.vcpus,
        "swap": flavor.swap_mib or (0 if version >= (2, 75) else ""),
        "OS-FLV-EXT-DATA:ephemeral": flavor.ephemeral_gib,
        "os-flavor-access:is_public": flavor.is_public,
    }
    if version < (2, 102):
        body["OS-FLV-DISABLED:disabled"] = flavor.disabled
        body["rxtx_factor"] = flavor.rxtx_factor
    if version >= (2, 61) and call.allowed(_SPECS):
        body["extra_specs"] = flavor.extra_specs
    return body
