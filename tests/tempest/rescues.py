"""What is run of Tempest's tests of rescued servers; docs/tempest.md says why not the rest."""

from __future__ import annotations

from tests.tempest.settings import Part

_SERVERS = "tempest.api.compute.servers"
_RESCUE = f"{_SERVERS}.test_server_rescue"

RESCUES = Part(
    "rescues",
    {
        f"{_RESCUE}.ServerRescueTestJSON": ("test_rescue_unrescue_instance",),
        f"{_RESCUE}.ServerBootFromVolumeStableRescueTest": (
            "test_stable_device_rescue_bfv_blank_volume",
            "test_stable_device_rescue_bfv_image_volume",
        ),
        f"{_SERVERS}.test_server_rescue_negative.ServerRescueNegativeTestJSON": (
            "test_rescue_non_existent_server",
            "test_rescue_paused_instance",
            "test_rescued_vm_attach_volume",
            "test_rescued_vm_detach_volume",
            "test_rescued_vm_reboot",
            "test_rescued_vm_rebuild",
        ),
    },
    {
        "compute-feature-enabled": {"rescue": "true", "stable_rescue": "true"},
        "validation": {"run_validation": "false"},
        # Tempest skips tests of attached volumes where this is false; none asks for a network.
        "service_available": {"neutron": "true"},
    },
)
