"""Which extra specs a flavor may get from microversion 2.86 on (facts/compute.md 9.4).

Each namespace that the field knows has keys and values of its own. A key that is misspelt in one of
them would come to nothing, so it is refused; other namespaces are the operators' own. That a key is
known says nothing of whether this cloud heeds it: docs/scheduling.md tells what it does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mooring.errors import Invalid

_TRUTH = "(?i:1|t|true|on|y|yes|0|f|false|off|n|no)"
_WHOLE, _COUNT, _ANY = r"\d+", r"[1-9]\d*", ".+"
_RATES = [f"disk_{way}_{what}" for way in ("read", "write", "total") for what in ("bytes", "iops")]
_SHARES = ("cpu", "memory", "disk_io", "vif")
_HW = {
    **dict.fromkeys(
        (
            *("boot_menu", "cpu_realtime", "ephemeral_encryption", "hide_hypervisor_id"),
            *("locked_memory", "mem_encryption", "pmu", "vif_multiqueue_enabled"),
            "virtio_packed_ring",
        ),
        _TRUTH,
    ),
    **dict.fromkeys(("cpu_sockets", "cpu_cores", "cpu_threads", "numa_nodes"), _COUNT),
    **dict.fromkeys(("cpu_max_sockets", "cpu_max_cores", "cpu_max_threads"), _COUNT),
    **dict.fromkeys(("serial_port_count", "maxphysaddr_bits", "redirected_usb_ports"), _WHOLE),
    **dict.fromkeys(("cpu_realtime_mask", "cpu_dedicated_mask", "pmem"), _ANY),
    **dict.fromkeys(("sound_model", "usb_model", "mem_encryption_model"), _ANY),
    "emulator_threads_policy": "isolate|share",
    "cpu_policy": "dedicated|shared|mixed",
    "cpu_thread_policy": "prefer|isolate|require",
    "ephemeral_encryption_format": "luks",
    "maxphysaddr_mode": "passthrough|emulate",
    "mem_page_size": r"(?i:large|small|any|\d+\s*([kmgt]i?b?)?)",
    r"numa_cpus\.\d+": r"\^?\d+(-\d+)?(,\^?\d+(-\d+)?)*",
    r"numa_mem\.\d+": _COUNT,
    "pci_numa_affinity_policy": "required|preferred|legacy|socket",
    "tpm_model": "tpm-(tis|crb)",
    "tpm_version": r"1\.2|2\.0",
    "tpm_secret_security": "user|host|deployment",
    "viommu_model": "intel|smmuv3|virtio|auto",
    "watchdog_action": "none|pause|poweroff|reset|disabled",
}
_QUOTA = {
    **{f"{what}_{one}": r"-?\d+" for what in _SHARES for one in ("limit", "reservation")},
    **{f"{what}_shares_level": "low|normal|high|custom" for what in _SHARES},
    **{f"{what}_shares_share": _WHOLE for what in _SHARES},
    **{f"cpu_{one}": r"-?\d+" for one in ("shares", "period", "quota")},
    **{f"{rate}_sec(_max(_length)?)?": _WHOLE for rate in _RATES},
    **{f"vif_(in|out)bound_{one}": _WHOLE for one in ("average", "peak", "burst")},
}
_CLASS = "([A-Z][A-Z0-9_]*)"
_KNOWN: dict[str, dict[str, str]] = {
    "accel": {"device_profile": _ANY},
    "aggregate_instance_extra_specs": {_ANY: ".*"},
    "capabilities": {_ANY: ".*"},
    "hw": _HW,
    "hw_rng": {"allowed": _TRUTH, "rate_bytes": _WHOLE, "rate_period": _WHOLE},
    "hw_video": {"ram_max_mb": _WHOLE},
    "os": {"secure_boot": "required|disabled|optional"},
    "pci_passthrough": {"alias": _ANY},
    "quota": _QUOTA,
    "resources": {_CLASS: _WHOLE},
    "trait": {_CLASS: "required|forbidden"},
    "vmware": {"hw_version": _ANY, "storage_policy": _ANY},
}
"""By namespace and by pattern of the key within it, the pattern of the value."""
_GROUPED = re.compile(r"(resources|trait)[\w-]{1,64}")
"""Namespaces of a group of requests by their suffix, as `trait1`."""


def check(specs: Mapping[str, str]) -> None:
    """Raise Invalid, naming the first one that a known namespace does not have, or not so."""
    for key, value in specs.items():
        namespace, colon, name = key.partition(":")
        grouped = _GROUPED.fullmatch(namespace)
        known = _KNOWN.get(grouped[1] if grouped else namespace)
        if not colon or known is None:
            continue
        allowed = next((of for one, of in known.items() if re.fullmatch(one, name)), None)
        if allowed is None:
            raise Invalid(
                f"Validation failed; extra spec '{key}' does not appear to be a valid extra spec: "
                f"namespace {namespace} has no such key. Nothing was changed."
            )
        if re.fullmatch(allowed, value) is None:
            raise Invalid(
                f"Validation failed; extra spec '{key}' cannot be '{value}': it must match "
                f"{allowed}. Nothing was changed."
            )
