"""All of Tempest's own API tests of identity, images, servers and volumes, but for what is named.

docs/tempest.md says why the rest is not run. What Tempest itself skips, as for want of a network
service, is no part of the count.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.tempest.settings import Part

_IDENTITY, _IMAGE = "tempest.api.identity", "tempest.api.image.v2"
_COMPUTE, _VOLUME = "tempest.api.compute", "tempest.api.volume"
_EVERY = (".*",)

_IDENTITY_LEFT_OUT = {
    # Domains, groups, trees of projects, and roles that groups have or that are inherited.
    f"{_IDENTITY}.admin.v3.test_default_project_id": _EVERY,
    f"{_IDENTITY}.admin.v3.test_domain_configuration": _EVERY,
    f"{_IDENTITY}.admin.v3.test_domains": _EVERY,
    f"{_IDENTITY}.admin.v3.test_domains_negative": _EVERY,
    f"{_IDENTITY}.admin.v3.test_groups": _EVERY,
    f"{_IDENTITY}.admin.v3.test_inherits": _EVERY,
    f"{_IDENTITY}.admin.v3.test_list_projects": _EVERY,
    f"{_IDENTITY}.admin.v3.test_list_users": _EVERY,
    f"{_IDENTITY}.admin.v3.test_projects.ProjectsTestJSON": (
        "test_create_is_domain_project",
        "test_project_create_with_domain",
        "test_project_create_with_parent",
    ),
    f"{_IDENTITY}.admin.v3.test_roles": _EVERY,
    f"{_IDENTITY}.admin.v3.test_tokens.TokensV3TestJSON": ("test_get_available_domain_scopes",),
    # Credentials of other kinds, and what else is kept for others.
    f"{_IDENTITY}.admin.v3.test_credentials": _EVERY,
    f"{_IDENTITY}.admin.v3.test_endpoint_groups": _EVERY,
    f"{_IDENTITY}.admin.v3.test_oauth_consumers": _EVERY,
    f"{_IDENTITY}.admin.v3.test_policies": _EVERY,
    f"{_IDENTITY}.v3.test_ec2_credentials": _EVERY,
}
_IMAGE_LEFT_OUT = {
    f"{_IMAGE}.admin.test_image_task": _EVERY,
    **{
        f"{_IMAGE}.admin.test_images_metadefs_{what}": _EVERY
        for what in (
            "namespace_objects",
            "namespace_properties",
            "namespace_tags",
            "namespaces",
            "resource_types",
        )
    },
    f"{_IMAGE}.test_images_metadefs_schema": _EVERY,
    # An image of a server that boots from a volume.
    f"{_IMAGE}.test_images_dependency.ImageDependencyTests": (
        "test_image_volume_server_snapshot_dependency",
    ),
}
_COMPUTE_LEFT_OUT: dict[str, Sequence[str]] = {
    # What compute once told of images and volumes, up to 2.35.
    f"{_COMPUTE}.images.test_image_metadata": _EVERY,
    f"{_COMPUTE}.images.test_image_metadata_negative": _EVERY,
    f"{_COMPUTE}.images.test_images_negative.ImagesDeleteNegativeTestJSON": _EVERY,
    f"{_COMPUTE}.images.test_list_image_filters": _EVERY,
    f"{_COMPUTE}.images.test_list_image_filters_negative": _EVERY,
    f"{_COMPUTE}.images.test_list_images": _EVERY,
    f"{_COMPUTE}.volumes.test_volume_snapshots": _EVERY,
    f"{_COMPUTE}.volumes.test_volumes_get": _EVERY,
    f"{_COMPUTE}.volumes.test_volumes_list": _EVERY,
    f"{_COMPUTE}.volumes.test_volumes_negative": _EVERY,
    # Reports to operators.
    f"{_COMPUTE}.admin.test_hypervisor.HypervisorAdminTestJSON": ("test_get_hypervisor_uptime",),
    f"{_COMPUTE}.admin.test_hosts": _EVERY,
    f"{_COMPUTE}.admin.test_hosts_negative": _EVERY,
    f"{_COMPUTE}.admin.test_instance_usage_audit_log": _EVERY,
    f"{_COMPUTE}.admin.test_instance_usage_audit_log_negative": _EVERY,
    f"{_COMPUTE}.admin.test_server_diagnostics": _EVERY,
    f"{_COMPUTE}.test_extensions": _EVERY,
    # Limits of single users, keys that the cloud makes of another kind, backups.
    **{
        f"{_COMPUTE}.admin.test_quotas.{case}": ("test_get_updated_quotas",)
        for case in ("QuotasAdminTestJSON", "QuotasAdminTestV236", "QuotasAdminTestV257")
    },
    f"{_COMPUTE}.keypairs.test_keypairs_v22.KeyPairsV22TestJSON": (
        "test_keypairsv22_create_list_show_with_type",
    ),
    f"{_COMPUTE}.servers.test_server_actions.ServerActionsTestOtherB": ("test_create_backup",),
    f"{_COMPUTE}.servers.test_server_actions.ServersAaction247Test": ("test_create_backup",),
    # There is no network service; v2.0 of the API was never here; this guest is logged in to.
    f"{_COMPUTE}.test_networks": _EVERY,
    f"{_COMPUTE}.servers.test_server_actions.ServerActionsTestOtherA": (
        "test_remove_server_all_security_groups",
    ),
    f"{_COMPUTE}.test_versions.TestVersions": ("test_list_api_versions",),
    f"{_COMPUTE}.servers.test_server_actions.ServerActionsV293TestJSON": _EVERY,
}
_VOLUME_LEFT_OUT: dict[str, Sequence[str]] = {
    f"{_VOLUME}.admin.test_backends_capabilities": _EVERY,
    f"{_VOLUME}.admin.test_group_snapshots": _EVERY,
    f"{_VOLUME}.admin.test_group_type_specs": _EVERY,
    f"{_VOLUME}.admin.test_group_types": _EVERY,
    f"{_VOLUME}.admin.test_groups": _EVERY,
    f"{_VOLUME}.admin.test_qos": _EVERY,
    f"{_VOLUME}.admin.test_volume_hosts": _EVERY,
    f"{_VOLUME}.admin.test_volume_retype": _EVERY,
    f"{_VOLUME}.admin.test_volume_services_negative.VolumeServicesNegativeTest": (
        "test_(freeze|thaw)_host_with_invalid_host",
    ),
    f"{_VOLUME}.admin.test_volume_types.VolumeTypesTest": (
        # It changes the volume's type.
        "test_volume_crud_with_volume_type_and_extra_specs",
        "test_volume_type_encryption_create_get_update_delete",
    ),
    f"{_VOLUME}.admin.test_volume_types_negative.VolumeTypesNegativeTest": (
        "test_create_volume_type_encryption_nonexistent_type_id",
    ),
    f"{_VOLUME}.test_extensions": _EVERY,
}

API = Part(
    "api",
    {},
    {
        "validation": {"run_validation": "false"},
        "service_available": {"neutron": "false"},
        "identity-feature-enabled": {
            "access_rules": "false",
            "security_compliance": "false",
            "trust": "false",
        },
        "image-feature-enabled": {"import_image": "false"},
        "compute-feature-enabled": {
            "change_password": "false",
            "interface_attach": "false",
            "metadata_service": "false",
            "personality": "false",
            "vnc_console": "false",
            "volume_multiattach": "true",
        },
        "volume": {"vendor_name": "Mooring", "storage_protocol": "simulated"},
        "volume-feature-enabled": {"backup": "false", "manage_volume": "false"},
    },
    whole=(_IDENTITY, "tempest.api.image", _COMPUTE, _VOLUME),
    left_out={
        **_IDENTITY_LEFT_OUT,
        **_IMAGE_LEFT_OUT,
        **_COMPUTE_LEFT_OUT,
        **_VOLUME_LEFT_OUT,
    },
    count=434,
    workers=3,
    makes_users=True,
)
