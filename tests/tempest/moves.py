"""Tempest's tests of servers that move or get another size, and of where servers go.

They run on a cloud of two simulated hosts, which share their pool.
"""

from __future__ import annotations

from tests.tempest.settings import Part

_ADMIN, _SERVERS = "tempest.api.compute.admin", "tempest.api.compute.servers"
_ACTIONS = f"{_SERVERS}.test_server_actions"
_LIVE = f"{_ADMIN}.test_live_migration"
_ON_VOLUME = ("test_volume_backed_live_migration",)

MOVES = Part(
    "moves",
    {
        f"{_ADMIN}.test_migrations.MigrationsAdminTest": (
            "test_list_migrations",
            "test_list_migrations_in_flavor_resize_situation",
            "test_resize_server_revert_deleted_flavor",
            "test_cold_migration",
            "test_revert_cold_migration",
        ),
        f"{_LIVE}.LiveMigrationTest": _ON_VOLUME,
        f"{_LIVE}.LiveAutoBlockMigrationV225Test": _ON_VOLUME,
        f"{_LIVE}.LiveMigrationWithoutHostTest": _ON_VOLUME,
        f"{_ADMIN}.test_live_migration_negative.LiveMigrationNegativeTest": (
            "test_invalid_host_for_migration",
        ),
        f"{_ACTIONS}.ServerActionsTestJSON": (
            "test_resize_server_confirm",
            "test_resize_server_revert",
        ),
        f"{_ACTIONS}.ServerActionsTestOtherA": ("test_resize_volume_backed_server_confirm",),
        f"{_ACTIONS}.ServerActionsTestOtherB": (
            "test_resize_server_confirm_from_stopped",
            "test_resize_server_revert_with_volume_attached",
        ),
        f"{_SERVERS}.test_disk_config.ServerDiskConfigTestJSON": (
            "test_resize_server_from_manual_to_auto",
            "test_resize_server_from_auto_to_manual",
        ),
        f"{_SERVERS}.test_delete_server.DeleteServersTestJSON": (
            "test_delete_server_while_in_verify_resize_state",
        ),
        f"{_SERVERS}.test_servers_negative.ServersNegativeTestJSON": (
            "test_resize_nonexistent_server",
            "test_resize_server_with_non_existent_flavor",
            "test_resize_server_with_null_flavor",
        ),
        f"{_ADMIN}.test_servers_negative.ServersAdminNegativeTestJSON": (
            "test_resize_server_using_overlimit_ram",
            "test_resize_server_using_overlimit_vcpus",
            "test_migrate_non_existent_server",
        ),
        "tempest.api.compute.volumes.test_attach_volume.AttachVolumeMultiAttachTest": (
            "test_resize_server_with_multiattached_volume",
        ),
        f"{_SERVERS}.test_server_group.ServerGroupTestJSON": (
            "test_create_delete_server_group_with_affinity_policy",
            "test_create_delete_server_group_with_anti_affinity_policy",
            "test_create_delete_multiple_server_groups_with_same_name_policy",
            "test_show_server_group",
            "test_list_server_groups",
            "test_create_server_with_scheduler_hint_group",
        ),
        f"{_SERVERS}.test_server_group.ServerGroup264TestJSON": ("test_create_get_server_group",),
        f"{_ADMIN}.test_servers_on_multinodes.ServersOnMultiNodesTest": (
            "test_create_server_with_scheduler_hint_group_anti_affinity",
            "test_create_server_with_scheduler_hint_group_affinity",
        ),
        f"{_ADMIN}.test_aggregates_negative.AggregatesAdminNegativeTestJSON": (
            "test_aggregate_create_as_user",
            "test_aggregate_create_aggregate_name_length_less_than_1",
            "test_aggregate_create_aggregate_name_length_exceeds_255",
            "test_aggregate_create_with_existent_aggregate_name",
            "test_aggregate_delete_as_user",
            "test_aggregate_list_as_user",
            "test_aggregate_get_details_as_user",
            "test_aggregate_delete_with_invalid_id",
            "test_aggregate_get_details_with_invalid_id",
            "test_aggregate_add_non_exist_host",
            "test_aggregate_add_host_as_user",
            "test_aggregate_add_existent_host",
            "test_aggregate_remove_host_as_user",
            "test_aggregate_remove_nonexistent_host",
        ),
        f"{_ADMIN}.test_availability_zone.AZAdminV2TestJSON": (
            "test_get_availability_zone_list",
            "test_get_availability_zone_list_detail",
        ),
        f"{_ADMIN}.test_availability_zone_negative.AZAdminNegativeTestJSON": (
            "test_get_availability_zone_list_detail_with_non_admin_user",
        ),
    },
    {
        "validation": {"run_validation": "false"},
        # As for the others: no test asks for a network, and some are skipped without one.
        "service_available": {"neutron": "true"},
        "compute": {"min_compute_nodes": "2"},
        "compute-feature-enabled": {
            "live_migration": "true",
            "volume_backed_live_migration": "true",
            "block_migration_for_live_migration": "false",
            "cold_migration": "true",
            "resize": "true",
            "disk_config": "true",
        },
    },
)
