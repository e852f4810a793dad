"""Every test is collected where libvirt's Python binding is missing: those that need it say so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.tidy.tree import CHECKOUT

_WITHOUT_LIBVIRT = """
import sys

for name in ("libvirt", "libvirt_qemu", "libvirtmod", "libvirtmod_qemu"):
    sys.modules[name] = None
"""


def test_tests_are_collected_without_libvirt_s_binding(tmp_path: Path) -> None:
    (tmp_path / "no_libvirt.py").write_text(_WITHOUT_LIBVIRT)
    command = (sys.executable, "-m", "pytest", "-p", "no_libvirt", "--collect-only", "-qq")
    without = (
        "--ignore=tests/laws",
        "--ignore=tests/mutants",
    )  # slow to find, no host of theirs is real
    collected = subprocess.run(
        (*command, *without),
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert collected.returncode == 0, collected.stdout[-3000:] + collected.stderr[-3000:]
    assert "tests/agent/test_domain_xml.py:" in collected.stdout
