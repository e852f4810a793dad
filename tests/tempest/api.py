"""All of Tempest's own API tests of identity, images, servers and volumes, but for what is named.

`left_out` names those that are not run, and says why; docs/tempest-left-out.md is made from it.
They run on a cloud of two simulated hosts, which share their pool.
"""

from __future__ import annotations

from tests.tempest.left_out import COMPUTE, VOLUME, by_case
from tests.tempest.settings import Part

_SETTINGS = {
    "validation": {"run_validation": "false"},
    # No test of these asks for a network, and Tempest skips many where there is no such service.
    "service_available": {"neutron": "true"},
    "identity-feature-enabled": {
        "access_rules": "false",
        "security_compliance": "false",
        "trust": "false",
    },
    "image-feature-enabled": {"import_image": "false"},
    "compute-feature-enabled": {
        "block_migration_for_live_migration": "true",
        "change_password": "false",
        "cold_migration": "true",
        "disk_config": "true",
        "ide_bus": "true",
        "interface_attach": "false",
        "live_migrate_back_and_forth": "true",
        "live_migration": "true",
        "metadata_service": "false",
        "personality": "false",
        "rescue": "true",
        "resize": "true",
        "scheduler_enabled_filters": (
            "DifferentHostFilter,SameHostFilter,"
            "ServerGroupAffinityFilter,ServerGroupAntiAffinityFilter"
        ),
        "serial_console": "true",
        "shelve_migrate": "true",
        "stable_rescue": "true",
        "vnc_console": "false",
        "volume_backed_live_migration": "true",
        "volume_multiattach": "true",
    },
    "volume": {"vendor_name": "Mooring", "storage_protocol": "simulated"},
    "volume-feature-enabled": {"backup": "true", "manage_volume": "false"},
}

API = Part(
    "api",
    {},
    {**_SETTINGS, "compute": {"min_compute_nodes": "2"}},
    whole=("tempest.api.identity", "tempest.api.image", COMPUTE, VOLUME),
    left_out=by_case(),
    count=682,
    workers=3,
    makes_users=True,
)

_RESCUE = f"{COMPUTE}.servers.test_server_rescue"
PICTURES = Part(
    "pictures",
    {
        f"{COMPUTE}.images.test_images.ImagesTestJSON": (
            "test_create_image_from_paused_server",
            "test_create_image_from_stopped_server",
            "test_create_image_from_suspended_server",
            "test_create_server_from_snapshot",
        ),
        f"{COMPUTE}.images.test_images_oneserver.ImagesOneServerTestJSON": (
            "test_create_delete_image",
            "test_create_image_specify_multibyte_character_image_name",
        ),
        f"{COMPUTE}.images.test_images_oneserver_negative.ImagesOneServerNegativeTestJSON": (
            "test_create_image_specify_invalid_metadata",
            "test_create_image_specify_metadata_over_limits",
            "test_create_image_specify_name_over_character_limit",
            "test_create_second_image_when_first_image_is_being_saved",
            "test_delete_image_that_is_not_yet_active",
        ),
        f"{_RESCUE}.ServerStableDeviceRescueTest": (
            "test_stable_device_rescue_disk_scsi",
            "test_stable_device_rescue_disk_usb",
            "test_stable_device_rescue_disk_virtio",
            "test_stable_device_rescue_disk_virtio_with_volume_attached",
        ),
        f"{_RESCUE}.ServerStableDeviceRescueTestIDE": ("test_stable_device_rescue_cdrom_ide",),
    },
    {**_SETTINGS, "compute": {"min_microversion": "2.36"}},
    makes_users=True,
)
"""What makes images of servers, and rescues with them: up to 2.35 Tempest looks for these through
compute."""

MANAGERS = Part(
    "managers",
    {
        f"{COMPUTE}.admin.test_live_migration.LiveMigrationManagerWorkflowTest": (
            "test_live_migration_by_project_manager",
        ),
    },
    {
        **_SETTINGS,
        "compute": {"min_compute_nodes": "2"},
        "compute-feature-enabled": {
            **_SETTINGS["compute-feature-enabled"],
            "nova_policy_roles": "admin,manager,member,reader",
        },
        "enforce_scope": {"nova": "true"},
    },
    makes_users=True,
)
"""What a project's manager may do. Where Tempest is told so, it does with this user whatever is
only for managers, and skips what it tries with others."""

TWO_POOLS = """\
[[pools]]
name = "local"
driver = "directory"
format = "raw"

[[pools]]
name = "other"
driver = "directory"
format = "raw"
"""
"""The storage file of the cloud in which volumes move between pools."""

_RETYPE = f"{VOLUME}.admin.test_volume_retype"
RETYPES = Part(
    "retypes",
    {
        f"{VOLUME}.admin.test_multi_backend.VolumeMultiBackendTest": (
            "test_backend_name_distinction",
            "test_backend_name_distinction_with_prefix",
            "test_backend_name_reporting",
            "test_backend_name_reporting_with_prefix",
        ),
        f"{_RETYPE}.VolumeRetypeMultiattachTest": ("test_volume_retype_multiattach",),
        f"{_RETYPE}.VolumeRetypeWithMigrationTest": (
            "test_available_volume_retype_with_migration",
            "test_volume_from_snapshot_retype_with_migration",
        ),
        f"{_RETYPE}.VolumeRetypeWithoutMigrationTest": ("test_available_volume_retype",),
    },
    {
        **_SETTINGS,
        "volume": {"backend_names": "local,other"},
        "volume-feature-enabled": {"multi_backend": "true"},
    },
    makes_users=True,
)
"""What wants a second pool."""
