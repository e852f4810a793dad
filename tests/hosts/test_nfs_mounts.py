"""Shares of a real NFS server, mounted by a real kernel for guests, where this machine's cannot."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.hosts.conftest import require_guests
from tests.hosts.kernel import CHECKOUT, make_disk, run_in_kernel, why_no_kernel

pytestmark = pytest.mark.hosts
IN_KERNEL = Path(__file__).parent / "in_kernel"
LIMIT_S = 900.0


@pytest.fixture(scope="module", autouse=True)
def _kernel() -> None:
    require_guests()
    if reason := why_no_kernel():
        pytest.skip(f"no kernel with NFS here: {reason}")


def test_shares_of_nfs_are_mounted_by_the_kernel(tmp_path: Path) -> None:
    script = tmp_path / "script"
    lines = [
        f". {IN_KERNEL / 'nfs.sh'}",
        "set -e",
        "serve_nfs papers",
        f"cd {CHECKOUT}",
        "export PYTHONDONTWRITEBYTECODE=1 PYTHONFAULTHANDLER=1 PYTHONPATH=src:.",
        "mkdir -p /run/served/host",
        f"exec {sys.executable} -m tests.hosts.in_kernel.mount_nfs /run/served/host",
    ]
    script.write_text("\n".join([*lines, ""]))
    disk = make_disk(tmp_path / "disk", 1)
    report = run_in_kernel(script, tmp_path, disk=disk, limit_s=LIMIT_S)
    assert report.status == 0, report.said
    for words in (
        "a share of NFS 4.2 is mounted, and written to",
        "127.0.0.1:/nothing is refused: not_found",
        "a server that hangs is given up",
        "who is not let in mounts nothing",
    ):
        assert f"mounts: {words}" in report.said, report.said
