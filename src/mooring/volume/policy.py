"""Who may do what by default: the rule names and defaults of OpenStack's block storage policy.

An operator's `policy.yaml` may override any of them. Rules of calls that are not built yet stand
here too, so that an operator's file for a real Cinder is accepted as it is.
Source: facts/block_storage.md 12.3.
"""

from __future__ import annotations

_ADMIN = "rule:admin_api"
_READER = "rule:xena_system_admin_or_project_reader"
_MEMBER = "rule:xena_system_admin_or_project_member"
_ANYBODY = "@"

_BASE = {
    "context_is_admin": "role:admin",
    "admin_api": "role:admin",
    "admin_or_owner": "rule:admin_api or project_id:%(project_id)s",
    "xena_system_admin_or_project_reader": (
        "rule:admin_api or (role:reader and project_id:%(project_id)s)"
    ),
    "xena_system_admin_or_project_member": (
        "rule:admin_api or (role:member and project_id:%(project_id)s)"
    ),
}

_VOLUME: dict[str, tuple[str, ...]] = {
    _READER: (
        "get",
        "get_all",
        "get_all_snapshots",
        "get_all_transfers",
        "get_snapshot",
        "get_snapshot_metadata",
        "get_transfer",
        "get_volume_metadata",
    ),
    _MEMBER: (
        "accept_transfer",
        "attachment_complete",
        "attachment_create",
        "attachment_delete",
        "attachment_update",
        "create",
        "create_from_image",
        "create_snapshot",
        "create_transfer",
        "create_volume_metadata",
        "delete",
        "delete_snapshot",
        "delete_snapshot_metadata",
        "delete_transfer",
        "delete_volume_metadata",
        "extend",
        "extend_attached_volume",
        "multiattach",
        "multiattach_bootable_volume",
        "reimage",
        "reimage_reserved",
        "retype",
        "revert_to_snapshot",
        "update",
        "update_readonly_flag",
        "update_snapshot",
        "update_snapshot_metadata",
        "update_volume_metadata",
    ),
    _ADMIN: (
        "failover_host",
        "force_delete",
        "freeze_host",
        "thaw_host",
        "update_volume_admin_metadata",
    ),
}

_EXTENSION: dict[str, tuple[str, ...]] = {
    _READER: (
        "availability_zone_list",
        "quotas:show",
        "type_get",
        "type_get_all",
        "types_extra_specs:index",
        "types_extra_specs:show",
        "volume_encryption_metadata",
        "volume_image_metadata:show",
        "volume_tenant_attribute",
    ),
    _MEMBER: (
        "snapshot_actions:update_snapshot_status",
        "volume_actions:attach",
        "volume_actions:begin_detaching",
        "volume_actions:detach",
        "volume_actions:initialize_connection",
        "volume_actions:reserve",
        "volume_actions:roll_detaching",
        "volume_actions:terminate_connection",
        "volume_actions:unreserve",
        "volume_actions:upload_image",
        "volume_image_metadata:remove",
        "volume_image_metadata:set",
    ),
    _ADMIN: (
        "access_types_extra_specs",
        "access_types_qos_specs_id",
        "backup_admin_actions:force_delete",
        "backup_admin_actions:reset_status",
        "capabilities",
        "default_get",
        "default_get_all",
        "default_set_or_update",
        "default_unset",
        "hosts",
        "list_manageable",
        "qos_specs_manage:create",
        "qos_specs_manage:delete",
        "qos_specs_manage:get",
        "qos_specs_manage:get_all",
        "qos_specs_manage:update",
        "quota_classes:get",
        "quota_classes:update",
        "quotas:delete",
        "quotas:update",
        "services:index",
        "services:update",
        "snapshot_admin_actions:force_delete",
        "snapshot_admin_actions:reset_status",
        "snapshot_manage",
        "snapshot_unmanage",
        "type_create",
        "type_delete",
        "type_update",
        "types_extra_specs:create",
        "types_extra_specs:delete",
        "types_extra_specs:read_sensitive",
        "types_extra_specs:update",
        "volume_actions:upload_public",
        "volume_admin_actions:force_delete",
        "volume_admin_actions:force_detach",
        "volume_admin_actions:migrate_volume",
        "volume_admin_actions:migrate_volume_completion",
        "volume_admin_actions:reset_status",
        "volume_host_attribute",
        "volume_manage",
        "volume_mig_status_attribute",
        "volume_type_access",
        "volume_type_access:addProjectAccess",
        "volume_type_access:get_all_for_type",
        "volume_type_access:removeProjectAccess",
        "volume_type_encryption:create",
        "volume_type_encryption:delete",
        "volume_type_encryption:get",
        "volume_type_encryption:update",
        "volume_unmanage",
    ),
}

_OTHERS = {
    # Upstream says admin alone; the service user of a compute service of ours has both roles.
    "volume_extension:volume_admin_actions:extend_volume_completion": (
        "rule:admin_api or role:service"
    ),
    "backup:backup-export": _ADMIN,
    "backup:backup-import": _ADMIN,
    "backup:backup_project_attribute": _ADMIN,
    "backup:create": _MEMBER,
    "backup:delete": _MEMBER,
    "backup:export-import": _ADMIN,
    "backup:get": _READER,
    "backup:get_all": _READER,
    "backup:restore": _MEMBER,
    "backup:update": _MEMBER,
    "limits_extension:used_limits": _READER,
    "message:delete": _MEMBER,
    "message:get": _READER,
    "message:get_all": _READER,
    "scheduler_extension:scheduler_stats:get_pools": _ADMIN,
    "workers:cleanup": _ADMIN,
    "versions": _ANYBODY,
}

RULES: dict[str, str] = {
    **_BASE,
    **{f"volume:{name}": check for check, names in _VOLUME.items() for name in names},
    **{f"volume_extension:{name}": check for check, names in _EXTENSION.items() for name in names},
    **_OTHERS,
}
"""Every rule with its default, in oslo.policy's language."""
