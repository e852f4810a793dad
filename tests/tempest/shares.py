"""What is run of the tests of manila-tempest-plugin; docs/tempest.md says why not the rest."""

from __future__ import annotations

from tests.tempest.settings import Part

_API = "manila_tempest_tests.tests.api"
_ADMIN = f"{_API}.admin"
_OPERATORS = f"{_ADMIN}.test_admin_actions"
_EXTRA_SPECS = f"{_ADMIN}.test_share_types_extra_specs"

POOLS = """\
[[share_pools]]
name = "files"
driver = "simulated"
total_gib = 500

[[share_pools]]
name = "ceph"
driver = "simulated"
protocol = "CEPHFS"
total_gib = 500
"""
"""The storage file of the cloud: a pool of each protocol."""

_LEFT_OUT = {
    f"{_OPERATORS}.AdminActionsTest": (
        "test_reset_share_(instance_)?state_[45]_.*",
        "test_reset_snapshot_state_[45]_.*",
        "test_reset_share_task_state",
    ),
    f"{_OPERATORS}_negative.AdminActionsAPIOnlyNegativeTest": (
        "test_migration_API_invalid_microversion_[1245]_.*",
    ),
    f"{_ADMIN}.test_export_locations_negative.ExportLocationsNegativeTest": (
        "test_(get|list)_share_export_locations?_by_different_project_user",
    ),
    f"{_EXTRA_SPECS}_negative.ExtraSpecsAdminNegativeTest": (
        "test_try_create_es_with_empty_shr_type_id",
        "test_try_(get_extra|update)_spec_with_empty_key",
        "test_try_read_extra_specs_on_share_type_with_user",
    ),
    f"{_ADMIN}.test_shares_actions.SharesActionsAdminTest": (
        "test_list_shares_with_detail_filter_by_share_network_id",
    ),
    f"{_API}.test_rules.ShareCephxRulesForCephFSTest": (
        "test_create_delete_cephx_rule_(05|06|11|12|17|18|23|24)_.*",
        "test_different_users_in_same_tenant_can_use_same_cephx_id",
    ),
    f"{_API}.test_rules_negative.ShareCephxRulesForCephFSNegativeTest": (
        "test_can_apply_new_cephx_rules_when_one_is_in_error_state",
        "test_different_tenants_cannot_use_same_cephx_id",
    ),
    f"{_API}.test_rules.ShareIpRulesForNFSTest": ("test_update_access_rule",),
    f"{_API}.test_rules.ShareRulesTest": (
        "test_access_rules_deleted_if_share_deleted_1_2_9",
        "test_list_access_rules_1_2_9",
    ),
    f"{_API}.test_shares.SharesCephFSTest": ("test_create_share_from_snapshot.*",),
    f"{_API}.test_shares.SharesNFSTest": (
        "test_create_share_from_snapshot_share_network_not_provided",
    ),
    f"{_API}.test_shares_actions.SharesActionsTest": (
        "test_soft_delete_and_restore_share",
        "test_list_shares_filter_by_availability_zone_.*",
        "test_list_shares_with_detail_filter_by_share_network_id",
    ),
    f"{_API}.test_shares_actions_negative.SharesActionsNegativeTest": (
        "test_(soft_delete|restore)_share_.*",
        "test_list_shares_with_availability_zone_.*",
    ),
    f"{_API}.test_shares_negative.SharesAPIOnlyNegativeTest": (
        "test_(delete|get)_share_without_passing_share_id",
        "test_(un)?manage_share_by_user",
    ),
    f"{_API}.test_shares_negative.SharesNegativeTest": (
        "test_create_share_from_snap_with_different_share_network",
        "test_create_share_with_nonexistant_share_network",
    ),
}

_WHOLE = (
    *_LEFT_OUT,
    f"{_OPERATORS}_negative.AdminActionsNegativeTest",
    f"{_ADMIN}.test_export_locations.ExportLocationsTest",
    f"{_ADMIN}.test_export_locations_negative.ExportLocationsAPIOnlyNegativeTest",
    f"{_ADMIN}.test_quotas.SharesAdminQuotasTest",
    f"{_ADMIN}.test_scheduler_stats.SchedulerStatsAdminTest",
    f"{_ADMIN}.test_services.ServicesAdminTest",
    f"{_ADMIN}.test_services_negative.ServicesAdminNegativeTest",
    f"{_ADMIN}.test_share_instances.ShareInstancesTest",
    f"{_ADMIN}.test_share_instances_negative.ShareInstancesNegativeTest",
    f"{_ADMIN}.test_share_types.ShareTypesAdminTest",
    f"{_EXTRA_SPECS}.ExtraSpecsReadAdminTest",
    f"{_EXTRA_SPECS}.ExtraSpecsWriteAdminTest",
    f"{_ADMIN}.test_share_types_negative.ShareTypesAdminNegativeTest",
    f"{_ADMIN}.test_user_messages.UserMessageTest",
    f"{_ADMIN}.test_user_messages_negative.UserMessageNegativeTest",
    f"{_API}.test_access_rules_metadata.AccessRulesMetadataTest",
    f"{_API}.test_access_rules_metadata_negative.AccessesMetadataNegativeTest",
    f"{_API}.test_availability_zones.AvailabilityZonesTest",
    f"{_API}.test_availability_zones_negative.AvailabilityZonesNegativeTest",
    f"{_API}.test_extensions.ExtensionsTest",
    f"{_API}.test_limits.ShareLimitsTest",
    f"{_API}.test_metadata.SharesMetadataTest",
    f"{_API}.test_metadata_negative.SharesMetadataAPIOnlyNegativeTest",
    f"{_API}.test_metadata_negative.SharesMetadataNegativeTest",
    f"{_API}.test_microversions.MicroversionsTest",
    f"{_API}.test_public_shares.PublicSharesTest",
    f"{_API}.test_public_shares_negative.PublicSharesNegativeTest",
    f"{_API}.test_quotas.SharesQuotasTest",
    f"{_API}.test_quotas_negative.SharesQuotasNegativeTest",
    f"{_API}.test_resource_locks.ResourceLockCRUTest",
    f"{_API}.test_resource_locks.ResourceLockDeleteTest",
    f"{_API}.test_resource_locks_negative.ResourceLockNegativeTestAPIOnly",
    f"{_API}.test_resource_locks_negative.ResourceLockNegativeTestWithShares",
    f"{_API}.test_rules_negative.ShareIpRulesForNFSNegativeTest",
    f"{_API}.test_rules_negative.ShareRulesAPIOnlyNegativeTest",
    f"{_API}.test_rules_negative.ShareRulesNegativeTest",
    f"{_API}.test_scheduler_stats_negative.SchedulerStatsNegativeTest",
    f"{_API}.test_share_types_negative.ShareTypesNegativeTest",
    f"{_API}.test_shares_actions.SharesRenameTest",
    f"{_API}.test_snapshot_metadata.ShareSnapshotMetadataTest",
    f"{_API}.test_snapshot_metadata_negative.ShareSnapshotMetadataNegativeTest",
)

SHARES = Part(
    "shares",
    {},
    {
        "service_available": {"neutron": "false", "manila": "true"},
        "share": {
            "max_api_microversion": "2.82",
            "multitenancy_enabled": "false",
            "enable_protocols": "nfs,cephfs",
            "enable_ip_rules_for_protocols": "nfs",
            "enable_cephx_rules_for_protocols": "cephfs",
            "enable_ro_access_level_for_protocols": "nfs,cephfs",
            "capability_storage_protocol": "NFS",
            "default_share_type_name": "__DEFAULT__",
            "run_share_group_tests": "false",
            "build_interval": "1",
            "build_timeout": "120",
        },
    },
    whole=_WHOLE,
    left_out=_LEFT_OUT,
    count=490,
    workers=3,
    makes_users=True,
)
