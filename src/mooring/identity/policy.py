"""Who may do what by default: the rule names and defaults of OpenStack's identity policy.

Source: facts/identity_image_placement.md 5.2.
"""

from __future__ import annotations

_ADMIN = "rule:admin_required"
_READER = "rule:admin_or_system_reader"
_OWNER_OR_READER = "rule:admin_or_system_reader or rule:owner"
_OWNER_OR_ADMIN = "rule:admin_required or rule:owner"
_ANYBODY = "@"

_RESOURCES = ("project", "user", "group", "role", "service", "endpoint", "region", "domain")

RULES: dict[str, str] = {
    "admin_required": "role:admin",
    "owner": "user_id:%(user_id)s",
    "system_reader": "role:reader and system_scope:all",
    "admin_or_system_reader": "rule:admin_required or rule:system_reader",
    "service_admin_or_token_subject": (
        "rule:admin_or_system_reader or rule:service_role or rule:owner"
    ),
    **{f"identity:get_{name}": _READER for name in _RESOURCES},
    **{f"identity:list_{name}s": _READER for name in _RESOURCES},
    **{f"identity:create_{name}": _ADMIN for name in _RESOURCES},
    **{f"identity:update_{name}": _ADMIN for name in _RESOURCES},
    **{f"identity:delete_{name}": _ADMIN for name in _RESOURCES},
    "identity:get_project": "rule:admin_or_system_reader or project_id:%(target.project.id)s",
    **{
        f"identity:{rule}": "rule:admin_or_system_reader or project_id:%(target.project.id)s"
        for rule in ("get_project_tag", "list_project_tags")
    },
    "mooring:end_all_tokens": _ADMIN,
    "mooring:rotate_token_keys": _ADMIN,
    "identity:create_project_tag": _ADMIN,
    "identity:update_project_tags": _ADMIN,
    "identity:delete_project_tag": _ADMIN,
    "identity:delete_project_tags": _ADMIN,
    "identity:get_domain": (
        "rule:admin_or_system_reader or project_domain_id:%(target.domain.id)s"
    ),
    "identity:get_user": _OWNER_OR_READER,
    "identity:get_region": _ANYBODY,
    "identity:list_regions": _ANYBODY,
    "identity:list_user_projects": _OWNER_OR_READER,
    "identity:list_groups_for_user": _OWNER_OR_READER,
    "identity:list_users_in_group": _READER,
    "identity:check_user_in_group": _READER,
    "identity:add_user_to_group": _ADMIN,
    "identity:remove_user_from_group": _ADMIN,
    "identity:check_grant": _READER,
    "identity:list_grants": _READER,
    "identity:create_grant": _ADMIN,
    "identity:revoke_grant": _ADMIN,
    **{
        f"identity:{rule}_system_grant_for_{holder}": needed
        for holder in ("user", "group")
        for rule, needed in (("check", _READER), ("create", _ADMIN), ("revoke", _ADMIN))
    },
    "identity:list_system_grants_for_user": _READER,
    "identity:list_system_grants_for_group": _READER,
    "identity:list_role_assignments": _READER,
    "identity:list_implied_roles": _READER,
    "identity:get_implied_role": _READER,
    "identity:check_implied_role": _READER,
    "identity:create_implied_role": _ADMIN,
    "identity:delete_implied_role": _ADMIN,
    "identity:list_role_inference_rules": _READER,
    "identity:get_limit_model": _ANYBODY,
    "identity:get_registered_limit": _ANYBODY,
    "identity:list_registered_limits": _ANYBODY,
    "identity:create_registered_limits": _ADMIN,
    "identity:update_registered_limit": _ADMIN,
    "identity:delete_registered_limit": _ADMIN,
    "identity:get_limit": (
        "rule:admin_or_system_reader or project_id:%(target.limit.project_id)s or "
        "domain_id:%(target.limit.domain_id)s"
    ),
    "identity:list_limits": _ANYBODY,
    "identity:create_limits": _ADMIN,
    "identity:update_limit": _ADMIN,
    "identity:delete_limit": _ADMIN,
    "identity:get_application_credential": _OWNER_OR_READER,
    "identity:list_application_credentials": _OWNER_OR_READER,
    "identity:create_application_credential": "rule:owner",
    "identity:delete_application_credential": _OWNER_OR_ADMIN,
    "identity:get_auth_catalog": _ANYBODY,
    "identity:get_auth_projects": _ANYBODY,
    "identity:get_auth_domains": _ANYBODY,
    "identity:get_auth_system": _ANYBODY,
    "identity:validate_token": "rule:service_admin_or_token_subject",
    "identity:check_token": "rule:service_admin_or_token_subject",
    "identity:revoke_token": _OWNER_OR_ADMIN,
}
