"""The fork that stands for the `openstack` program answers as the program does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.command import run_command

pytestmark = pytest.mark.contract
OPENSTACK = Path(sys.executable).with_name("openstack")
LIMIT_S = 240


@pytest.mark.parametrize(
    "words", [("server", "list"), ("volume", "create", "--help"), ("no", "such", "command")]
)
def test_the_fork_ends_and_says_what_the_program_does(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "OS_AUTH_URL": "http://127.0.0.1:1/v3",
        "OS_USERNAME": "nobody",
        "OS_PASSWORD": "nothing",
    }
    program = subprocess.run(
        [OPENSTACK, *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    fork = run_command(words, environment, timeout_s=LIMIT_S)
    said = (program.returncode, program.stdout, program.stderr)
    assert (fork.returncode, fork.stdout, fork.stderr) == said
