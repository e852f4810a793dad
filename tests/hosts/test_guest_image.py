"""The test guest boots, tells what disks it sees, keeps markers, heeds the power button."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.hosts.plain_guest import MACHINE, booted

pytestmark = pytest.mark.hosts

CHECKOUT = Path(__file__).parents[2]
TOOLS = ("qemu-system-x86_64", "qemu-img", "syslinux", "mformat", "busybox", "cpio", "apt-get")
GIB = 1 << 30


@pytest.fixture(scope="module")
def image() -> Path:
    """The guest's disk, made when needed."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"no real guests here: {', '.join(missing)} missing; run scripts/setup as root")
    subprocess.run([CHECKOUT / "scripts" / "build_guest"], check=True)
    return CHECKOUT / "build" / "guest" / "guest.qcow2"


def test_the_guest_sees_disks_come_grow_and_go_and_heeds_the_power_button(
    image: Path, tmp_path: Path
) -> None:
    disk, data = tmp_path / "root.qcow2", tmp_path / "data.raw"
    shutil.copyfile(image, disk)
    with data.open("wb") as file:
        file.truncate(GIB)
    with booted(disk, tmp_path / "first") as guest:
        guest.hear(f"mooring-guest: machine {MACHINE}")
        guest.hear("mooring-guest: disk vda 24117248 bytes serial=root")
        guest.hear(f"mooring-guest: boot marker written {MACHINE}")
        guest.plug("data", data)
        guest.hear(f"mooring-guest: disk vdb {GIB} bytes serial=data")
        guest.hear(f"mooring-guest: vdb marker written {MACHINE}")
        guest.order("block_resize", **{"node-name": "data", "size": 2 * GIB})
        guest.hear(f"mooring-guest: disk vdb {2 * GIB} bytes serial=data")
        guest.order("device_del", id="data")
        guest.hear("mooring-guest: disk vdb gone")
        guest.order("system_powerdown")
        guest.process.wait(timeout=20)
    assert data.read_bytes()[:128].rstrip(b"\0") == f"MOORING-MARKER:{MACHINE}".encode()
    with booted(disk, tmp_path / "second") as guest:
        guest.hear(f"mooring-guest: boot marker read {MACHINE}")
        guest.plug("again", data)
        guest.hear(f"mooring-guest: vdb marker read {MACHINE}")
