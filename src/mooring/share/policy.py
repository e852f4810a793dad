"""Who may do what by default: the rule names and defaults of OpenStack's share policy.

An operator's `policy.yaml` may override any of them. Rules of calls that are not built stand here
too, so that an operator's file for a real Manila is accepted as it is.
Source: facts/shared_file_systems.md 2.
"""

from __future__ import annotations

_ADMIN = "rule:context_is_admin"
_READER = "rule:admin-or-project-reader"
_MEMBER = "rule:admin-or-project-member"
_SERVED = "rule:admin-or-service-or-project-member"

_BASE = {
    "context_is_admin": "role:admin",
    "admin-or-project-reader": "role:admin or (role:reader and project_id:%(project_id)s)",
    "admin-or-project-member": "role:admin or (role:member and project_id:%(project_id)s)",
    "admin-or-service-or-project-member": (
        "role:admin or role:service or (role:member and project_id:%(project_id)s)"
    ),
}

_BY_CHECK: dict[str, tuple[str, ...]] = {
    _READER: (
        "availability_zone:index",
        "limits:index",
        "message:get",
        "message:get_all",
        "quota_set:show",
        "share:access_get",
        "share:access_get_all",
        "share:get",
        "share:get_all",
        "share:get_share_metadata",
        "share_access_rule:get",
        "share_access_rule:index",
        "share_export_location:index",
        "share_export_location:show",
        "share_snapshot:get_all_snapshots",
        "share_snapshot:get_metadata",
        "share_snapshot:get_snapshot",
        "share_type:default",
        "share_type:index",
        "share_type:show",
    ),
    _MEMBER: (
        "message:delete",
        "share:allow_access",
        "share:create",
        "share:create_snapshot",
        "share:delete",
        "share:delete_share_metadata",
        "share:delete_snapshot",
        "share:deny_access",
        "share:extend",
        # Admin upstream; there is no state to reset here, and the stock `share set` ends with it.
        "share:reset_task_state",
        "share:restore",
        "share:revert_to_snapshot",
        "share:shrink",
        "share:snapshot_update",
        "share:soft_delete",
        "share:update",
        "share:update_share_metadata",
        "share_access_metadata:delete",
        "share_access_metadata:update",
        "share_access_rule:update",
        "share_snapshot:delete_metadata",
        "share_snapshot:update_metadata",
    ),
    _SERVED: (
        "resource_lock:create",
        "resource_lock:delete",
        "resource_lock:get",
        "resource_lock:get_all",
        "resource_lock:update",
    ),
    _ADMIN: (
        "quota_class_set:show",
        "quota_class_set:update",
        "quota_set:delete",
        "quota_set:update",
        "resource_lock:bypass_locked_show_action",
        "resource_lock:get_all_projects",
        "scheduler_stats:pools:detail",
        "scheduler_stats:pools:index",
        "service:index",
        "service:update",
        "share:create_public_share",
        "share:force_delete",
        "share:force_extend",
        "share:list_by_host",
        "share:list_by_share_server_id",
        "share:manage",
        "share:migration_cancel",
        "share:migration_complete",
        "share:migration_get_progress",
        "share:migration_start",
        "share:reset_status",
        "share:set_public_share",
        "share:unmanage",
        "share_instance:force_delete",
        "share_instance:index",
        "share_instance:reset_status",
        "share_instance:show",
        "share_instance_export_location:index",
        "share_instance_export_location:show",
        "share_snapshot:force_delete",
        "share_snapshot:manage_snapshot",
        "share_snapshot:reset_status",
        "share_snapshot:unmanage_snapshot",
        "share_type:add_project_access",
        "share_type:create",
        "share_type:delete",
        "share_type:list_project_access",
        "share_type:remove_project_access",
        "share_type:update",
        "share_types_extra_spec:create",
        "share_types_extra_spec:delete",
        "share_types_extra_spec:index",
        "share_types_extra_spec:show",
        "share_types_extra_spec:update",
    ),
}

RULES: dict[str, str] = {
    **_BASE,
    **{name: check for check, names in _BY_CHECK.items() for name in names},
}
"""Every rule with its default, in oslo.policy's language."""
