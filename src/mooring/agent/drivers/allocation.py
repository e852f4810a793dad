"""The space of a thick volume's file, taken before anybody writes there."""

from __future__ import annotations

import sys
from pathlib import Path

from mooring.agent import limits
from mooring.agent.run import Budget, Output, Runner
from mooring.errors import NoCapacity, Unavailable

_CANNOT = "Operation not supported", "Function not implemented"
"""What `fallocate` says where a file system takes no space by itself, as NFS below 4.2."""
_BY_BLOCKS = """
import os, sys
path, begin, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.posix_fallocate(os.open(path, os.O_RDWR), begin, length)
"""
"""What reads and writes each block. `fallocate --posix` of util-linux 2.38 would, and says that all
went well where there was no room."""


class Allocator:
    """Takes space for the files of one pool."""

    def __init__(self, pool: str, runner: Runner) -> None:
        self._pool, self._runner = pool, runner

    async def take(
        self, path: Path, span: tuple[int, int], operation_key: str, *, beside_guests: bool = False
    ) -> bool:
        """Take the space of a raw file from one byte to another, keeping what it holds.

        Where a file system cannot, each block is read and written; or none is and the answer is
        False, where a guest may write to them meanwhile. Raises NoCapacity, Unavailable.
        """
        begin, length = str(span[0]), str(span[1] - span[0])
        argv = ["fallocate", "--offset", begin, "--length", length, str(path)]
        output = await self._run(argv, operation_key)
        if output.code and any(said in output.err for said in _CANNOT):
            if beside_guests:
                return False
            argv = [sys.executable, "-I", "-c", _BY_BLOCKS, str(path), begin, length]
            output = await self._run(argv, operation_key)
        self._check(path, output)
        return True

    async def _run(self, argv: list[str], operation_key: str) -> Output:
        budget = Budget(timeout_s=limits.AGENT_COPY_S, cpu_s=int(limits.AGENT_COPY_S))
        return await self._runner.run(argv, budget, operation_key=operation_key)

    def _check(self, path: Path, output: Output) -> None:
        """Raise what a program that failed says: NoCapacity or Unavailable."""
        if output.code == 0:
            return
        said = output.err.strip()
        if "No space left" in said or "quota exceeded" in said:
            raise is_full(self._pool, private=said)
        raise Unavailable(
            f"Pool {self._pool} could not take the space of {path.name}. The agent's log says why.",
            private=said,
        )


def is_full(pool: str, *, private: str) -> NoCapacity:
    """Say that a pool has no space for a thick volume."""
    return NoCapacity(
        f"Pool {pool} has no room for a volume that takes its whole space at once. Delete volumes "
        "or add storage.",
        private=private,
    )
