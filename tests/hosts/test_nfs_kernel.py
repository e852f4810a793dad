"""Real NFS 4.2, of a real kernel: what grows there, and what its locks refuse."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from tests.agent.shares import Shares
from tests.hosts.conftest import require_guests
from tests.hosts.kernel import make_disk, run_in_kernel, why_no_kernel
from tests.hosts.nfs_agent import FORMATS, Sleeper, export, leave_asleep

pytestmark = [pytest.mark.hosts, pytest.mark.long, pytest.mark.anyio]

CHECKOUT = Path(__file__).parents[2]
IN_KERNEL = Path(__file__).parent / "in_kernel"
GIB = 1 << 30
LIMIT_S = 1200.0
"""For the whole kernel: it takes two minutes when the machine has nothing else to do."""


@pytest.fixture(scope="module", autouse=True)
def _kernel() -> None:
    require_guests()
    if reason := why_no_kernel():
        pytest.skip(f"no kernel with NFS here: {reason}")


def script(directory: Path, state_dir: Path, shares: Shares, sleeper: Sleeper) -> Path:
    """Write down what runs in the kernel: NFS in the place of the stand-ins, then the program.

    The agent's state moves to a disk: guests bypass the page cache, which memory cannot do.
    """
    path, state = directory / "script", "/run/served/state"
    module = "tests.hosts.in_kernel.grow_on_nfs"
    lines = [
        f". {IN_KERNEL / 'nfs.sh'}",
        "set -e",
        f"serve_nfs {' '.join(FORMATS)}",
        *(f"cp -a {shares.export(export(one))}/. /run/served/share/{one}" for one in FORMATS),
        f"cp -a {state_dir} {state}",
        f"rm -rf {state}/mnt",
        f"mount --bind {state} {state_dir}",
        f"cd {CHECKOUT}",
        "export PYTHONDONTWRITEBYTECODE=1 PYTHONFAULTHANDLER=1 PYTHONPATH=src:.",
        f"exec {sys.executable} -m {module} {state_dir} '{msgspec.json.encode(sleeper).decode()}'",
    ]
    path.write_text("\n".join([*lines, ""]))
    return path


async def test_volumes_on_nfs_grow_only_through_the_guests_qemu_and_keep_what_is_written(
    tmp_path: Path,
) -> None:
    state_dir, shares = tmp_path / "agent", Shares(tmp_path / "outside")
    sleeper = await leave_asleep(state_dir, tmp_path / "outside")
    program = script(tmp_path, state_dir, shares, sleeper)
    report = run_in_kernel(program, tmp_path, disk=make_disk(tmp_path / "disk", 8), limit_s=LIMIT_S)
    assert report.status == 0, report.said
    for one in FORMATS:
        assert f"{one}: only the guest's QEMU can make it grow" in report.said
        assert f"{one}: the guest sees {2 * GIB} bytes and writes on" in report.said
        assert f"{one}: it grows by itself when no guest has it" in report.said
