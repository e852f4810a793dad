"""Real NFS 4.2, of a real kernel: what grows there, and what its locks refuse."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.hosts import why_no_real_guests
from tests.hosts.kernel import make_disk, run_in_kernel, why_no_kernel
from tests.hosts.plain_guest import booted, disk_options
from tests.hosts.written import LABEL

pytestmark = pytest.mark.hosts

CHECKOUT = Path(__file__).parents[2]
IN_KERNEL = Path(__file__).parent / "in_kernel"
GIB = 1 << 30
LIMIT_S = 600.0
"""For the whole kernel: it takes two minutes when the machine has nothing else to do."""
FORMATS = ("raw", "qcow2")


@pytest.fixture(scope="module", autouse=True)
def _kernel() -> None:
    if shutil.which("syslinux"):
        subprocess.run([CHECKOUT / "scripts" / "build_guest"], check=True)
    if reason := why_no_real_guests() or why_no_kernel():
        pytest.skip(f"no kernel with NFS here: {reason}")


def script(directory: Path) -> Path:
    """Write down what runs in the kernel: NFS, then the program that uses it."""
    path = directory / "script"
    program = [sys.executable, "-m", "tests.hosts.in_kernel.grow_on_nfs", str(directory)]
    path.write_text(
        f". {IN_KERNEL / 'nfs.sh'}\nset -e\nserve_nfs {' '.join(FORMATS)}\ncd {CHECKOUT}\n"
        f"export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=src:.\nexec {' '.join(program)}\n"
    )
    return path


def fall_asleep_writing(directory: Path) -> None:
    """Leave in the directory a guest that was put to sleep while it wrote to two disks.

    To boot it takes a minute in a processor that is emulated twice, to wake it none.
    """
    shutil.copy(CHECKOUT / "build" / "guest" / "guest.qcow2", directory / "root.qcow2")
    raw = directory / "raw"
    with raw.open("wb") as file:
        file.write(LABEL)
        file.truncate(GIB)
    convert = ["qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, directory / "qcow2"]
    subprocess.run(convert, check=True)
    options = [word for one in FORMATS for word in disk_options(one, directory / one, one)]
    with booted(directory / "root.qcow2", directory / "control", *options) as guest:
        guest.hear("vdb writer has written 8")
        guest.hear("vdc writer has written 8")
        guest.save(directory / "state")


def test_a_disk_on_nfs_grows_only_through_the_guests_qemu_and_keeps_what_is_written(
    tmp_path: Path,
) -> None:
    fall_asleep_writing(tmp_path)
    disk = make_disk(tmp_path / "served", 8)
    report = run_in_kernel(script(tmp_path), tmp_path, disk=disk, limit_s=LIMIT_S)
    assert report.status == 0, report.said
    for one in FORMATS:
        assert f"{one}: only the guest's QEMU can make it grow" in report.said
        assert f"{one}: the guest sees {2 * GIB} bytes and writes on" in report.said
        assert f"{one}: it grows by itself when no guest has it" in report.said
