"""Who may do what by default: the rule names and defaults of OpenStack's placement policy.

Source: facts/identity_image_placement.md 5.4.
"""

from __future__ import annotations

_SERVICE = "rule:admin_or_service"

_RULES = (
    "placement:allocation_candidates:list",
    "placement:allocations:delete",
    "placement:allocations:list",
    "placement:allocations:manage",
    "placement:allocations:update",
    "placement:resource_classes:create",
    "placement:resource_classes:delete",
    "placement:resource_classes:list",
    "placement:resource_classes:show",
    "placement:resource_classes:update",
    "placement:resource_providers:aggregates:list",
    "placement:resource_providers:aggregates:update",
    "placement:resource_providers:allocations:list",
    "placement:resource_providers:create",
    "placement:resource_providers:delete",
    "placement:resource_providers:inventories:create",
    "placement:resource_providers:inventories:delete",
    "placement:resource_providers:inventories:list",
    "placement:resource_providers:inventories:show",
    "placement:resource_providers:inventories:update",
    "placement:resource_providers:list",
    "placement:resource_providers:show",
    "placement:resource_providers:traits:delete",
    "placement:resource_providers:traits:list",
    "placement:resource_providers:traits:update",
    "placement:resource_providers:update",
    "placement:resource_providers:usages",
    "placement:traits:delete",
    "placement:traits:list",
    "placement:traits:show",
    "placement:traits:update",
)

RULES: dict[str, str] = {
    "admin_or_service_api": "role:admin or role:service",
    "service_api": "role:service",
    **dict.fromkeys(_RULES, _SERVICE),
    "placement:usages": "rule:admin_or_service or rule:project_reader_api",
    "placement:reshaper:reshape": "rule:service_api",
}
"""Rule texts by name, in oslo.policy's language."""
