"""What is not run of Tempest's own API tests of identity, images, servers and volumes, and why.

`make golden` writes docs/tempest-left-out.md from it. Whatever Tempest would skip by itself is
named here too: what is run has to pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

IDENTITY, IMAGE = "tempest.api.identity", "tempest.api.image.v2"
COMPUTE, VOLUME = "tempest.api.compute", "tempest.api.volume"
_EVERY = (".*",)
_ADMIN = f"{IDENTITY}.admin.v3"
_SERVERS, _IMAGES = f"{COMPUTE}.servers", f"{COMPUTE}.images"
_ACTIONS = f"{_SERVERS}.test_server_actions"
_ATTACH = f"{COMPUTE}.volumes.test_attach_volume"
_LIVE = f"{COMPUTE}.admin.test_live_migration"


class LeftOut(Struct, frozen=True):
    """Why tests are not run, and which: by module or case, regular expressions of their names."""

    why: str
    tests: Mapping[str, Sequence[str]]


def _whole(parent: str, *names: str) -> dict[str, Sequence[str]]:
    """Return whole modules, or cases of a module."""
    return {f"{parent}.{name}": _EVERY for name in names}


_OF_IDENTITY = (
    LeftOut(
        "projects have no trees, no project is a domain, and no role is inherited along them",
        {
            **_whole(_ADMIN, "test_inherits", "test_list_projects"),
            f"{_ADMIN}.test_projects.ProjectsTestJSON": (
                "test_create_is_domain_project",
                "test_project_create_with_parent",
            ),
        },
    ),
    LeftOut(
        "no role belongs to a domain",
        {
            f"{_ADMIN}.test_roles.RolesV3TestJSON": (
                "test_domain_roles_create_delete",
                "test_implied_domain_roles",
                "test_assignments_for_domain_roles",
            )
        },
    ),
    LeftOut("configurations of domains are not built", _whole(_ADMIN, "test_domain_configuration")),
    LeftOut(
        "stored and EC2 credentials, OAuth, trusts, stored policies and filters of endpoints are "
        "not built",
        {
            **_whole(_ADMIN, "test_credentials", "test_endpoint_groups", "test_oauth_consumers"),
            **_whole(_ADMIN, "test_policies", "test_trusts"),
            **_whole(f"{IDENTITY}.v3", "test_ec2_credentials"),
        },
    ),
    LeftOut(
        "application credentials have no access rules (400)",
        {
            **_whole(f"{IDENTITY}.v3", "test_access_rules"),
            f"{IDENTITY}.v3.test_application_credentials.ApplicationCredentialsV3Test": (
                "test_create_application_credential_access_rules",
            ),
        },
    ),
    LeftOut(
        "passwords do not age, and a user is not locked out: attempts are slowed down",
        {
            **_whole(f"{IDENTITY}.v3", "test_users"),
            f"{_ADMIN}.test_users.UsersV3TestJSON": (
                "test_password_history_not_enforced_in_admin_reset",
            ),
        },
    ),
)
_OF_IMAGES = (
    LeftOut(
        "catalogues of metadata are not built",
        {
            **_whole(
                f"{IMAGE}.admin",
                "test_images_metadefs_namespace_objects",
                "test_images_metadefs_namespace_properties",
                "test_images_metadefs_namespace_tags",
                "test_images_metadefs_namespaces",
                "test_images_metadefs_resource_types",
            ),
            **_whole(IMAGE, "test_images_metadefs_schema"),
        },
    ),
    LeftOut(
        "imports and their tasks are not built, and there is one store, which has no locations",
        {
            **_whole(f"{IMAGE}.admin", "test_image_task"),
            **_whole(f"{IMAGE}.admin.test_images", "ImageLocationsAdminTest"),
            **_whole(f"{IMAGE}.admin.test_images", "ImportCopyImagesTest", "MultiStoresImagesTest"),
            **_whole(
                f"{IMAGE}.test_images",
                "HashCalculationRemoteDeletionTest",
                "ImageLocationsTest",
                "ImportImagesTest",
                "LocationImportTest",
                "MultiStoresImportImagesTest",
                "MultistoreLocationImportTest",
                "StoreWeightTest",
            ),
            **_whole(f"{IMAGE}.test_images_negative", "ImportImagesNegativeTest"),
        },
    ),
    LeftOut(
        "there is no cache of images, they are read where they are kept",
        _whole(f"{IMAGE}.admin", "test_image_caching"),
    ),
    LeftOut(
        "Tempest skips it where data has to be what its format says, as it has here",
        _whole(f"{IMAGE}.test_images", "ListUserImagesTest"),
    ),
    LeftOut(
        "it wants sample images of each format, which the package lacks",
        _whole(IMAGE, "test_images_formats"),
    ),
)
_OF_NETWORKS = (
    LeftOut(
        "there is no network service: no networks, interfaces, addresses, security groups",
        {
            **_whole(COMPUTE, "test_networks", "test_tenant_networks"),
            **_whole(COMPUTE, "floating_ips", "security_groups"),
            **_whole(f"{COMPUTE}.admin", "test_auto_allocate_network", "test_networks"),
            **_whole(f"{COMPUTE}.admin", "test_security_groups"),
            **_whole(
                f"{COMPUTE}.admin.test_quotas_negative", "QuotasSecurityGroupAdminNegativeTest"
            ),
            f"{COMPUTE}.admin.test_servers.ServersAdminTestJSON": ("test_inject_network_info",),
            **{
                f"{_LIVE}.{case}": ("test_live_migration_with_trunk",)
                for case in (
                    "LiveMigrationTest",
                    "LiveMigrationWithoutHostTest",
                    "LiveAutoBlockMigrationV225Test",
                )
            },
            **_whole(_SERVERS, "test_attach_interfaces", "test_create_server_multi_nic"),
            **_whole(f"{_SERVERS}.test_server_rescue", "ServerRescueTestJSONUnderV235"),
            f"{_SERVERS}.test_list_server_filters.ListServerFiltersTestJSON": (
                "test_list_servers_filtered_by_ip",
                "test_list_servers_filtered_by_ip_regex",
            ),
            f"{_SERVERS}.test_server_addresses.ServerAddressesTestJSON": (
                "test_list_server_addresses",
            ),
            f"{_ACTIONS}.ServerActionsTestOtherA": ("test_remove_server_all_security_groups",),
        },
    ),
    LeftOut(
        "it logs in to the guest; ServerActionsV293TestJSON is run by itself",
        {
            **_whole(f"{COMPUTE}.admin", "test_create_server"),
            **{
                f"{_SERVERS}.test_create_server.{case}": (
                    "test_host_name_is_same_as_server_name",
                    "test_verify_created_server_vcpus",
                )
                for case in (
                    "ServersTestBootFromVolume",
                    "ServersTestJSON",
                    "ServersTestManualDisk",
                )
            },
            **_whole(
                f"{_SERVERS}.test_create_server",
                "ServersTestFqdnHostnames",
                "ServersV294TestFqdnHostnames",
            ),
            **_whole(_SERVERS, "test_device_tagging"),
            **_whole(_ACTIONS, "ServerActionsV293TestJSON"),
        },
    ),
)
_OF_SERVERS = (
    LeftOut(
        "compute's old proxies to the image and volume services (up to 2.35) are not built; "
        "what asks for images at 2.36 as well is run by itself",
        {
            **_whole(
                _IMAGES,
                "test_image_metadata",
                "test_image_metadata_negative",
                "test_images.ImagesTestJSON",
                "test_images_negative.ImagesDeleteNegativeTestJSON",
                "test_images_oneserver",
                "test_images_oneserver_negative",
                "test_list_image_filters",
                "test_list_image_filters_negative",
                "test_list_images",
            ),
            **_whole(
                f"{COMPUTE}.volumes",
                "test_volume_snapshots",
                "test_volumes_get",
                "test_volumes_list",
                "test_volumes_negative",
            ),
            **_whole(
                f"{_SERVERS}.test_server_rescue",
                "ServerStableDeviceRescueTest",
                "ServerStableDeviceRescueTestIDE",
            ),
        },
    ),
    LeftOut(
        "it waits to see an image while it is saved; those of simulated guests are there sooner",
        {f"{_IMAGES}.test_images.ImagesTestJSON": ("test_delete_saving_image",)},
    ),
    LeftOut(
        "how long a host has been up is not asked of it (501)",
        {
            f"{COMPUTE}.admin.test_hypervisor.HypervisorAdminTestJSON": (
                "test_get_hypervisor_uptime",
            )
        },
    ),
    LeftOut(
        "hosts and usage audits of compute's older API, diagnostics, and whole lists of extensions "
        "are not built",
        {
            **_whole(
                f"{COMPUTE}.admin",
                "test_hosts",
                "test_hosts_negative",
                "test_instance_usage_audit_log",
                "test_instance_usage_audit_log_negative",
                "test_server_diagnostics",
            ),
            **_whole(COMPUTE, "test_extensions"),
        },
    ),
    LeftOut(
        "compute has no limits of single users",
        {
            f"{COMPUTE}.admin.test_quotas.{case}": ("test_get_updated_quotas",)
            for case in ("QuotasAdminTestJSON", "QuotasAdminTestV236", "QuotasAdminTestV257")
        },
    ),
    LeftOut(
        "keys are made of one kind, ssh",
        {
            f"{COMPUTE}.keypairs.test_keypairs_v22.KeyPairsV22TestJSON": (
                "test_keypairsv22_create_list_show_with_type",
            )
        },
    ),
    LeftOut(
        "there was never a v2.0 of compute here",
        {f"{COMPUTE}.test_versions.TestVersions": ("test_list_api_versions",)},
    ),
    LeftOut(
        "consoles to look at, passwords and files in guests need an agent or a screen in the guest",
        {
            **_whole(f"{COMPUTE}.admin", "test_spice"),
            **_whole(_SERVERS, "test_novnc", "test_server_password", "test_server_personality"),
            f"{_ACTIONS}.ServerActionsTestJSON": ("test_change_server_password",),
            f"{_ACTIONS}.ServerActionsTestOtherB": ("test_get_vnc_console",),
            f"{_SERVERS}.test_servers_negative.ServersNegativeTestJSON": (
                "test_personality_file_contents_not_encoded",
            ),
        },
    ),
    LeftOut(
        "there is no key manager, which a vTPM needs",
        _whole(_LIVE, "LiveMigrationWithVTPMTest"),
    ),
    LeftOut(
        "it cannot pass: Tempest's client of websockets takes text for bytes, and the case lacks "
        "what says how its servers move (`tests/compute/test_serial_consoles.py` does it)",
        _whole(_LIVE, "LiveMigrationRemoteConsolesV26Test"),
    ),
    LeftOut(
        "what a project's manager may do is run by itself: Tempest has to be told of such users",
        _whole(_LIVE, "LiveMigrationManagerWorkflowTest"),
    ),
    LeftOut(
        "certificates of images are not built",
        _whole(f"{_SERVERS}.test_servers", "ServerShowV263Test"),
    ),
    LeftOut(
        "Tempest itself skips it, for defects of OpenStack",
        {
            f"{_ACTIONS}.ServerActionsTestOtherB": (
                "test_get_console_output_server_id_in_shutoff_status",
            ),
            **_whole(f"{COMPUTE}.admin.test_volume_swap", "TestVolumeSwap"),
            **_whole(
                f"{COMPUTE}.admin.test_volumes_negative", "UpdateMultiattachVolumeNegativeTest"
            ),
            f"{COMPUTE}.admin.test_volumes_negative.VolumesAdminNegativeTest": (
                "test_update_attached_volume_with_nonexistent_volume_in_body",
            ),
        },
    ),
    LeftOut(
        "Tempest itself skips it, and a volume at several servers is not swapped (specs 001)",
        _whole(f"{COMPUTE}.admin.test_volume_swap", "TestMultiAttachVolumeSwap"),
    ),
    LeftOut(
        "its end detaches the volume while the snapshot that it asked for is still made: 400 until "
        "that has ended",
        _whole(f"{COMPUTE}.admin", "test_assisted_volume_snapshots"),
    ),
    LeftOut(
        "it wants an image with virtio-scsi",
        {
            f"{_ATTACH}.AttachVolumeMultiAttachTest": (
                "test_boot_from_multiattach_volume_direct_lun",
                "test_boot_with_multiattach_volume_direct_lun",
            )
        },
    ),
)
_OF_VOLUMES = (
    LeftOut(
        "groups of volumes, QoS, encryption, capabilities and freezing of backends, and hosts and "
        "extension lists of the volume service are not built",
        {
            **_whole(
                f"{VOLUME}.admin",
                "test_backends_capabilities",
                "test_encrypted_volumes_extend",
                "test_group_snapshots",
                "test_group_type_specs",
                "test_group_types",
                "test_groups",
                "test_qos",
                "test_volume_hosts",
            ),
            f"{VOLUME}.admin.test_volume_services_negative.VolumeServicesNegativeTest": (
                "test_(freeze|thaw)_host_with_invalid_host",
            ),
            f"{VOLUME}.admin.test_volume_types.VolumeTypesTest": (
                "test_volume_type_encryption_create_get_update_delete",
            ),
            f"{VOLUME}.admin.test_volume_types_negative.VolumeTypesNegativeTest": (
                "test_create_volume_type_encryption_nonexistent_type_id",
            ),
            **_whole(VOLUME, "test_extensions"),
        },
    ),
    LeftOut(
        "volumes of the storage are not taken over and not let go",
        _whole(f"{VOLUME}.admin", "test_snapshot_manage", "test_volume_manage"),
    ),
    LeftOut(
        "it wants a second pool, and is run by itself in a cloud with two",
        _whole(f"{VOLUME}.admin", "test_multi_backend", "test_volume_retype"),
    ),
)
LEFT_OUT = (*_OF_IDENTITY, *_OF_IMAGES, *_OF_NETWORKS, *_OF_SERVERS, *_OF_VOLUMES)


def by_case() -> dict[str, tuple[str, ...]]:
    """Return the same, by case alone."""
    found: dict[str, tuple[str, ...]] = {}
    for one in LEFT_OUT:
        for case, names in one.tests.items():
            found[case] = (*found.get(case, ()), *names)
    return found
