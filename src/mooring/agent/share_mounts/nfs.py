"""Shares of NFS: by the kernel's client, or bound from a directory of this very machine."""

from __future__ import annotations

import os
from pathlib import Path

from mooring.agent.run import Output, Runner, find_program
from mooring.agent.settings import MountSettings
from mooring.agent.share_mounts import local_shares
from mooring.agent.share_mounts.base import Wanted, no_export, not_here, not_let_in
from mooring.agent.share_mounts.real import SAFELY, RealMounts, join_options, say_words
from mooring.errors import MooringError, Unavailable
from mooring.fence.threads import run_to_end

_HELPER = "mount.nfs"
_DENIED = ("access denied by server", "Operation not permitted", "Permission denied")
_MISSING = ("No such file or directory", "Stale file handle")
_NO_CLIENT = ("No such device", "unknown filesystem type", "Protocol not supported")


class NfsMounts(RealMounts):
    """Implements `ShareMounter` for an agent that is root."""

    def __init__(self, base: Path, settings: MountSettings, runner: Runner) -> None:
        super().__init__(base, settings, runner)
        self._options = settings.shares.nfs_mount_options

    async def mount(self, wanted: Wanted, operation_key: str) -> None:
        level = await run_to_end(lambda: local_shares.let_in(wanted.export, wanted.client))
        if wanted.path in await self.mounted():
            if level is not None:
                await self._limit(wanted, level, operation_key)
            return
        await run_to_end(lambda: wanted.path.mkdir(mode=0o700, exist_ok=True))
        try:
            if level is None:
                await self._mount(wanted, operation_key)
            else:
                where = (wanted.export.path, str(wanted.path))
                await self._bind(wanted, operation_key, "--bind", "--", *where)
                await self._limit(wanted, level, operation_key)
        except (MooringError, OSError):
            # A mount that was ended may have come true all the same.
            await self.unmount(wanted.path)
            raise

    async def _mount(self, wanted: Wanted, operation_key: str) -> None:
        find_program(self._find(_HELPER))
        # It would try again for two minutes, and whoever asks tries again too.
        options = join_options(SAFELY, "retry=0", self._options)
        where = (wanted.export.text, str(wanted.path))
        output = await self._do("mount", "-t", "nfs", *options, *where, operation_key=operation_key)
        if output.code:
            raise _refusal(wanted, output)

    async def _limit(self, wanted: Wanted, level: str, operation_key: str) -> None:
        """Give a directory that is bound its options, which takes a second call."""
        options = join_options("remount,bind", SAFELY, level)
        await self._bind(wanted, operation_key, *options, "--", str(wanted.path))

    async def _bind(self, wanted: Wanted, operation_key: str, *words: str) -> None:
        output = await self._do("mount", *words, operation_key=operation_key)
        if output.code:
            raise Unavailable(
                f"The directory of {wanted.export.text} cannot be bound to {wanted.path}. Nothing "
                "was mounted; the agent's log has what mount said. Ask again.",
                private=say_words(output),
            )


class LinkedShares:
    """Implements `ShareMounter` for an agent that is not root: of this machine's directories.

    A link stands for a mount. Guests of real hypervisors need root for their shares; this serves
    simulated guests and whoever develops with them.
    """

    def __init__(self, base: Path) -> None:
        self._base = base

    @property
    def base(self) -> Path:
        return self._base

    async def prepare(self) -> None:
        await run_to_end(lambda: self._base.mkdir(mode=0o700, parents=True, exist_ok=True))

    async def mount(self, wanted: Wanted, operation_key: str) -> None:
        del operation_key
        if wanted.path in await self.mounted():
            return
        level = await run_to_end(lambda: local_shares.let_in(wanted.export, wanted.client))
        if level is None:
            raise not_here(wanted.export, "mounting takes root, and its agent is not")
        if level == "ro":
            raise not_here(wanted.export, "it may only be read, which a link does not see to")
        await run_to_end(lambda: wanted.path.symlink_to(wanted.export.path))

    async def unmount(self, path: Path) -> None:
        if path in await self.mounted():
            await run_to_end(path.unlink)

    async def mounted(self) -> frozenset[Path]:
        def read() -> frozenset[Path]:
            return frozenset(path for path in self._base.glob("*") if path.is_symlink())

        return await run_to_end(read)

    async def check(self, path: Path) -> None:
        return


def choose(base: Path, settings: MountSettings, runner: Runner) -> NfsMounts | LinkedShares:
    """Return how this agent mounts shares of NFS."""
    if os.geteuid() == 0 or settings.program_path:
        return NfsMounts(base, settings, runner)
    return LinkedShares(base)


def _refusal(wanted: Wanted, output: Output) -> MooringError:
    """Return what a mount that failed means, by what mount.nfs(8) says."""
    said, export = say_words(output), wanted.export
    if any(words in said for words in _DENIED):
        return not_let_in(export, wanted.client, said)
    if any(words in said for words in _NO_CLIENT):
        return not_here(export, "its kernel has no NFS client", said)
    if any(words in said for words in _MISSING):
        return no_export(export, said)
    return Unavailable(
        f"The server of {export.text} does not answer this host. Nothing was mounted; see to the "
        "server and the network between, and ask again.",
        private=said,
    )
