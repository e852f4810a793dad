"""What all real mounts have: the kernel's table says what there is, and programs may be ended."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import structlog

from mooring.agent import limits
from mooring.agent.mounts import read_mount_points
from mooring.agent.run import Budget, Output, Runner
from mooring.agent.settings import MountSettings
from mooring.agent.share_mounts.base import no_answer
from mooring.errors import Unavailable
from mooring.fence.threads import run_to_end

log = structlog.get_logger()
SAFELY = "nosuid,nodev"
"""Options of every mount: what guests put into a share must not become a power on the host."""


class RealMounts:
    """The part of `ShareMounter` that is the same for all that root mounts."""

    def __init__(self, base: Path, settings: MountSettings, runner: Runner) -> None:
        self._base, self._settings, self._runner = base, settings, runner

    @property
    def base(self) -> Path:
        return self._base

    async def prepare(self) -> None:
        # Who is let in to a share is for its guests to say, and for nobody else of the host.
        await run_to_end(lambda: self._base.mkdir(mode=0o700, parents=True, exist_ok=True))

    async def unmount(self, path: Path) -> None:
        if path in await self.mounted():
            await self._unmount(path)
        await run_to_end(lambda: _remove(path))

    async def mounted(self) -> frozenset[Path]:
        table = Path(self._settings.table)
        found = await run_to_end(lambda: read_mount_points(table))
        return frozenset(path for path in found if path.parent == self._base)

    async def check(self, path: Path) -> None:
        budget = Budget(timeout_s=limits.AGENT_MOUNT_ANSWER_S)
        # Of NFS the kernel may remember the directory, and a client that CephFS has thrown out
        # still knows how large the file system is.
        for words in (("--file-system", "--format=%T"), ("--format=%F",)):
            argv = ["stat", *words, "--", f"{path}/."]
            try:
                output = await self._runner.run(argv, budget)
            except Unavailable as error:
                raise no_answer(path, str(error)) from error
            if output.code:
                raise no_answer(path, output.err.strip())

    async def _unmount(self, path: Path) -> None:
        """Take a mount from the host's names. Raises Unavailable while something has it open."""
        try:
            output = await self._do("umount", "--no-canonicalize", "--", str(path))
        except Unavailable as error:
            # Its server keeps it waiting. Nobody's data are in it: its guests have ended.
            log.warning("a share is unmounted lazily", path=str(path), reason=str(error))
            output = await self._do("umount", "--lazy", "--force", "--", str(path))
        if output.code and path in await self.mounted():
            raise Unavailable(
                f"The share at {path} cannot be unmounted: something on this host has it open. "
                f"See what it is (fuser -m {path}), and ask again.",
                private=output.err.strip(),
            )

    async def _do(self, program: str, *words: str, operation_key: str = "") -> Output:
        """Run a program that may be kept waiting by a server. Raises Unavailable when it is."""
        budget = Budget(timeout_s=self._settings.timeout_s)
        argv = [self._find(program), *words]
        return await self._runner.run(argv, budget, operation_key=operation_key)

    def _find(self, program: str) -> str:
        """Return a program, of the directories in the settings before the system's."""
        places = [Path(one) / program for one in self._settings.program_path.split(":") if one]
        return next((str(one) for one in places if os.access(one, os.X_OK)), program)


def say_words(output: Output) -> str:
    """Return what a program said last, in one line, for those who see to the host."""
    return " ".join(output.err.split())[-500:]


def join_options(*options: str) -> Sequence[str]:
    """Return what goes before the words of mount: all options that are not empty."""
    return ("-o", ",".join(filter(None, options)))


def _remove(path: Path) -> None:
    """Remove the directory of a mount, if it is empty: each host has a base of its own."""
    with suppress(OSError):
        path.rmdir()
