"""What is run of Tempest's tests of volumes; docs/tempest.md says why not the rest."""

from __future__ import annotations

from tests.tempest.settings import Part

_API = "tempest.api.volume"

_LEFT_OUT = {
    # The images that these boot from are those of another project.
    f"{_API}.test_volumes_clone.VolumesCloneTest": ("test_create_from_bootable_volume",),
    f"{_API}.test_volumes_get.VolumesGetTest": ("test_volume_create_get_update_delete_from_image",),
    # A body without its volume is malformed (400), and no volume that is missing (404).
    f"{_API}.test_volumes_snapshots_negative.VolumesSnapshotNegativeTestJSON": (
        "test_create_snapshot_without_passing_volume_id",
    ),
    # A path with nothing behind its last slash is the path before that; the image again.
    f"{_API}.test_volumes_negative.VolumesNegativeTest": (
        "test_attach_volumes_with_nonexistent_volume_id",
        "test_(delete|get)_volume_without_passing_volume_id",
        "test_update_volume_with_empty_volume_id",
    ),
}

_WHOLE = (
    *_LEFT_OUT,
    f"{_API}.test_volume_transfers",
    f"{_API}.test_volumes_clone_negative",
    f"{_API}.test_volumes_snapshots_list",
    f"{_API}.test_snapshot_metadata",
    f"{_API}.test_volume_delete_cascade",
    f"{_API}.admin.test_snapshots_actions",
)

VOLUMES = Part(
    "volumes",
    {},
    {
        "validation": {"run_validation": "false"},
        "service_available": {"neutron": "false"},
    },
    whole=_WHOLE,
    left_out=_LEFT_OUT,
    count=66,
    workers=3,
    makes_users=True,
)
