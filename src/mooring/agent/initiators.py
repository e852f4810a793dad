"""By which names storage knows this host, as os-brick finds them (facts/block_storage.md 10.1).

A host that has no initiator of a kind has no name of it, and the key is left out: no array can
export to it in that way. Mooring's own drivers of volumes need none of them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_INITIATOR = Path("etc/iscsi/initiatorname.iscsi")
_NVME = {"nqn": Path("etc/nvme/hostnqn"), "nvme_hostid": Path("etc/nvme/hostid")}
_NVME_PATHS = Path("sys/module/nvme_core/parameters/multipath")
_UUID = Path("sys/class/dmi/id/product_uuid")
_FIBRE = "sys/class/fc_host/*"
_NAME = re.compile(r"^\s*InitiatorName\s*=\s*(\S+)", re.MULTILINE)


def find(root: Path = Path("/")) -> dict[str, Any]:
    """Return the keys of a connector that this machine has. Blocking."""
    found: dict[str, Any] = {}
    named = _NAME.search(_read(root / _INITIATOR))
    if named is not None:
        found["initiator"] = named[1]
    for key, path in _NVME.items():
        if text := _read(root / path):
            found[key] = text
    if "nqn" in found:
        found["nvme_native_multipath"] = _read(root / _NVME_PATHS) == "Y"
    if system := _read(root / _UUID):
        found["system uuid"] = system.lower()
    hosts = sorted(root.glob(_FIBRE))
    for key, name in (("wwpns", "port_name"), ("wwnns", "node_name")):
        names = [_read(host / name).removeprefix("0x") for host in hosts]
        if any(names):
            found[key] = [one for one in names if one]
    return found


def _read(path: Path) -> str:
    """Return what stands in a file; empty when it is not there, or not for this user."""
    try:
        return path.read_text("utf-8", errors="replace").strip()
    except OSError:
        return ""
