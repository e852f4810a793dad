"""Shares of CephFS, each by a ceph-fuse of its own, which outlives the agent as guests do.

Source: facts/distributed_storage.md 2.4.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from mooring.agent.run import Budget, Output, Runner, find_processes, find_program
from mooring.agent.settings import MountSettings
from mooring.agent.share_mounts.base import Wanted, no_export, not_here, not_let_in
from mooring.agent.share_mounts.real import RealMounts, say_words
from mooring.agent.waiting import until, until_told
from mooring.errors import Invalid, MooringError, Unavailable
from mooring.fence.threads import run_to_end

_FUSE = Path("/dev/fuse")
_DENIED = re.compile(r"mount failed with .*\((1|13)\)|rejected us")
_MISSING = re.compile(r"mount failed with .*\(2\)")
_OPTION = re.compile(r"[a-z][a-z0-9_]{1,63}=[^\s,]{1,256}")
_KEY, _PID, _BEGUN = ".keyring", ".pid", ".begun"
"""Files of a client: its key while it mounts; its process; that it has not been seen to mount."""
_CONNECTS = 3
"""What part of a mount's time Ceph's monitors may take to answer."""


class CephfsMounts(RealMounts):
    """Implements `ShareMounter` for an agent that is root."""

    def __init__(
        self, base: Path, settings: MountSettings, runner: Runner, directory: Path
    ) -> None:
        super().__init__(base, settings, runner)
        self._directory = directory.absolute()
        self._options = read_options(settings.shares.cephfs_options)

    async def prepare(self) -> None:
        await super().prepare()
        mounted = await self.mounted()

        def clear() -> None:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in mounted:
                self._file(path, _BEGUN).unlink(missing_ok=True)
            for key in self._directory.glob(f"*{_KEY}"):
                key.unlink(missing_ok=True)

        await run_to_end(clear)

    async def mount(self, wanted: Wanted, operation_key: str) -> None:
        begun = self._file(wanted.path, _BEGUN)
        if wanted.path in await self.mounted():
            await run_to_end(lambda: begun.unlink(missing_ok=True))
            return
        if not await run_to_end(_FUSE.exists):
            raise not_here(wanted.export, "it has no FUSE")
        find_program(self._find("ceph-fuse"))
        if await run_to_end(begun.exists):
            # One that an agent has begun which was killed may come true yet.
            await self._end_client(wanted.path)
        # Any other was mounted: it has what guests have written until that is with Ceph.
        await self.unmount(wanted.path)
        await run_to_end(lambda: wanted.path.mkdir(mode=0o700, exist_ok=True))
        try:
            # A file is enough, forced or not: no client outlives the machine's own end.
            await run_to_end(begun.touch)
            await self._start_client(wanted, operation_key)
            await run_to_end(begun.unlink)
        except (MooringError, OSError):
            await self._end_client(wanted.path)
            await self.unmount(wanted.path)
            raise

    async def unmount(self, path: Path) -> None:
        words = self._words(path)

        async def is_gone() -> bool:
            # Also what a client mounts meanwhile that an agent has begun which was killed.
            await super(CephfsMounts, self).unmount(path)
            return not await run_to_end(lambda: find_processes(words))

        # What guests have written and the client still has goes to Ceph before it ends.
        if not await until_told(is_gone, self._settings.timeout_s):
            raise Unavailable(
                f"The client of the share at {path} still has data for Ceph, which does not "
                "answer. See to the cluster and ask again; nobody uses the share any more."
            )
        for suffix in (_PID, _BEGUN):
            await run_to_end(lambda name=suffix: self._file(path, name).unlink(missing_ok=True))

    async def _start_client(self, wanted: Wanted, operation_key: str) -> None:
        """Run ceph-fuse until it has mounted; its key is in a file for as long as that takes."""
        key = self._file(wanted.path, _KEY)
        try:
            await run_to_end(lambda: _write_secret(key, wanted))
            # No limit but its time: the client is to live as long as the guests do.
            budget = Budget(timeout_s=self._settings.timeout_s, cpu_s=0, memory_bytes=0, lasts=True)
            argv = self._command(wanted, key)
            output = await self._runner.run(argv, budget, operation_key=operation_key)
        finally:
            await run_to_end(lambda: key.unlink(missing_ok=True))
        if output.code or wanted.path not in await self.mounted():
            raise _refusal(wanted, output)

    def _command(self, wanted: Wanted, key: Path) -> list[str]:
        seconds = max(1, int(self._settings.timeout_s / _CONNECTS))
        return [
            self._find("ceph-fuse"),
            *("--conf", "/dev/null", "--no-mon-config", "--id", wanted.client),
            *("-m", wanted.export.servers, "--keyring", str(key)),
            f"--client_mountpoint={wanted.export.path}",
            f"--client_mount_timeout={seconds}",
            *("--admin_socket=", "--log_file=", "--log_to_file=false", "--err_to_stderr=true"),
            *self._options,
            self._words(wanted.path),
            str(wanted.path),
        ]

    def _words(self, path: Path) -> str:
        """Return by what a client's command line is known: no other host's has this file."""
        return f"--pid_file={self._file(path, _PID)}"

    def _file(self, path: Path, suffix: str) -> Path:
        return self._directory / f"{path.name}{suffix}"

    async def _end_client(self, path: Path) -> None:
        """End a client that nobody has written through, at once."""
        words = self._words(path)
        await self._runner.end_strays(words)
        if not await until(lambda: not find_processes(words), self._settings.timeout_s):
            raise Unavailable(
                f"A client of CephFS for {path} does not end. See what it waits for, and ask again."
            )


def _write_secret(path: Path, wanted: Wanted) -> None:
    """Write a keyring that its owner alone may read, from its first moment on."""
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(f"[client.{wanted.client}]\n\tkey = {wanted.key}\n")


def read_options(text: str) -> tuple[str, ...]:
    """Return options of ceph-fuse, `NAME=VALUE` with commas between. Raises Invalid."""
    options = [option for option in text.split(",") if option]
    if bad := [option for option in options if not _OPTION.fullmatch(option)]:
        raise Invalid(f"cephfs_options has what is no NAME=VALUE: {', '.join(bad)}.")
    return tuple(f"--{option}" for option in options)


def _refusal(wanted: Wanted, output: Output) -> MooringError:
    """Return what a mount that failed means. What the client says may repeat the key."""
    said = say_words(output).replace(wanted.key, "***")
    if _DENIED.search(said):
        return not_let_in(wanted.export, wanted.client, said)
    if _MISSING.search(said):
        return no_export(wanted.export, said)
    return Unavailable(
        f"Ceph's monitors of {wanted.export.text} do not answer this host, or do not know "
        f"{wanted.client} and its key. Nothing was mounted; see to the cluster and to the share's "
        "access rule, and ask again.",
        private=said,
    )
