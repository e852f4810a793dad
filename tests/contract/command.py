"""The stock `openstack` command, imported once: each command is a fork of one process.

Most of the processor time of a command goes into its imports. The code that runs, its arguments,
its environment and how it ends are those of the program; `test_command.py` holds the two against
each other.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.kill.processes import PRELOADED

_forks = multiprocessing.get_context("forkserver")
# There is one process to fork for all tests of a process.
_forks.set_forkserver_preload([*PRELOADED, "openstackclient.shell", "openstack.connection"])


def run_command(
    words: Sequence[str], environment: Mapping[str, str], *, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run one command and return how it ended, whatever that is.

    Raises subprocess.TimeoutExpired when it did not end in time; it has been killed then.
    """
    with tempfile.TemporaryDirectory() as directory:
        outputs = [Path(directory) / name for name in ("out", "err")]
        process = _forks.Process(target=_be_command, args=(words, dict(environment), outputs))
        process.start()
        process.join(timeout_s)
        if process.is_alive():
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(["openstack", *words], timeout_s)
        code = process.exitcode
        assert code is not None
        out, err = (path.read_text() for path in outputs)
        return subprocess.CompletedProcess(["openstack", *words], code, out, err)


def _be_command(
    words: Sequence[str], environment: Mapping[str, str], outputs: Sequence[Path]
) -> None:
    from openstackclient import shell

    for stream, path in zip((sys.stdout, sys.stderr), outputs, strict=True):
        with path.open("wb") as file:
            os.dup2(file.fileno(), stream.fileno())
    os.environ.clear()
    os.environ.update(environment)
    shell.OpenStackShell.NAME = "openstack"  # made of the arguments at import
    sys.argv = ["openstack", *words]
    sys.exit(shell.main(list(words)))
