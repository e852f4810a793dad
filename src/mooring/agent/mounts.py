"""The shares that this host has mounted: mounted when first used, unmounted when nobody is left.

os-brick mounts, in a helper process; its disconnect leaves mounts behind, so the last user's
leaving is noticed here. What the kernel's table says is the truth, so a killed agent finds its
mounts again.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import structlog
from msgspec import Struct

from mooring.agent import limits
from mooring.agent.brick.requests import MODULE, MountRequest, UnmountRequest
from mooring.agent.run import Budget, Runner
from mooring.agent.settings import MountSettings
from mooring.agent.worker import Worker
from mooring.errors import Invalid, MooringError, Unavailable
from mooring.fence.threads import run_to_end

log = structlog.get_logger()
Users = Callable[[], Iterable[Path]]


_LOCAL_LOCKS = {"nolock", "local_lock=all", "local_lock=posix"}


class Space(Struct, frozen=True):
    """How large a mounted share is, in bytes; `free_bytes` is what an ordinary user may take."""

    total_bytes: int
    free_bytes: int


class Mounts:
    """The mounts of one host. `base` holds those of connected volumes, each named after its export.

    Every part that uses mounts tells which, through `add_users`.
    """

    def __init__(self, settings: MountSettings, state_dir: Path, runner: Runner) -> None:
        # As the kernel's table has it, without links.
        self.base = state_dir.resolve() / "mnt"
        self.settings = settings
        self._runner = runner
        self._locks = state_dir / "brick-locks"
        self._workers = [
            Worker(runner, MODULE, [str(self._locks)], program_path=settings.program_path)
            for _ in range(limits.AGENT_MOUNTS_AT_ONCE)
        ]
        self._users: list[Users] = []
        self._held: Counter[Path] = Counter()
        self._turns: defaultdict[Path, asyncio.Lock] = defaultdict(asyncio.Lock)

    @property
    def helpers(self) -> list[int]:
        """The helper processes that run now: one, unless a share keeps its own waiting."""
        return [worker.pid for worker in self._workers if worker.pid is not None]

    def prepare(self) -> None:
        """Make the directories."""
        self.base.mkdir(mode=0o711, parents=True, exist_ok=True)
        self._locks.mkdir(mode=0o700, parents=True, exist_ok=True)

    def add_users(self, users: Users) -> None:
        """Ask `users` which mount points are in use before one is unmounted."""
        self._users.append(users)

    async def close(self) -> None:
        """End the helpers; the mounts stay for the guests that use them."""
        for worker in self._workers:
            await worker.close()

    @asynccontextmanager
    async def held(self, request: MountRequest) -> AsyncGenerator[Path]:
        """Mount an export and keep it so in the body, which notes its user.

        A body that fails has no user, nor has a share that does not answer once it is mounted: then
        it is unmounted, unless another one uses it. Raises Unavailable when it cannot be mounted,
        or does not answer.
        """
        path, has_user = self._path(request), False
        self._held[path] += 1
        try:
            async with self._turns[path]:
                await self._mount(request, path)
            await self.space(path)
            yield path
            has_user = True
        finally:
            self._held[path] -= 1
            if not has_user:
                await self.release(path)

    async def release(self, path: Path) -> None:
        """Unmount unless somebody uses it; what cannot be unmounted now is tried again later.

        Whoever leaves has let go of its volume, so a mount that stays is untidy, not wrong: the
        host's inventory shows it, and the next start of the agent tries again.
        """
        async with self._turns[path]:
            if self._held[path] or self._is_in_use(path) or path not in await self.mounted():
                return
            try:
                await self._ask("unmount", UnmountRequest(str(path)))
            except MooringError as error:
                log.warning("a mount stays", path=str(path), reason=str(error))
                return
            await run_to_end(lambda: _remove(path))

    async def release_unused(self, base: Path) -> None:
        """Unmount what an agent before this one left mounted under a directory."""
        for path in await self.mounted():
            if path.parent == base:
                await self.release(path)

    async def unused(self) -> list[str]:
        """Return the mounts of volumes that nobody uses."""
        mounts = [one for one in await self.mounted() if one.parent == self.base]
        return sorted(str(one) for one in mounts if not self._is_in_use(one))

    async def mounted(self) -> dict[Path, frozenset[str]]:
        """Return all mount points of the host; for their values see `read_mount_points`."""
        return await run_to_end(lambda: read_mount_points(Path(self.settings.table)))

    async def shows_locks(self, path: Path) -> bool:
        """Return whether a lock that another host has on a share's file is seen on this one.

        NFS shows them unless it was mounted so that locks stay on the host; of a file system in
        user space, such as Quobyte's, the kernel does not say (facts/block_storage.md 3.5).
        """
        options = (await self.mounted()).get(path, frozenset())
        return options.isdisjoint(_LOCAL_LOCKS) and not any(
            word.startswith("fuse") for word in options
        )

    async def space(self, path: Path) -> Space:
        """Return the size of a mounted share, asked by a program that can be ended.

        Raises Unavailable when the share does not answer.
        """
        argv = ["stat", "--file-system", "--format=%S %b %a", "--", str(path)]
        budget = Budget(timeout_s=limits.AGENT_MOUNT_ANSWER_S)
        try:
            output = await self._runner.run(argv, budget)
        except Unavailable as error:
            raise _gone(str(error)) from error
        if output.code:
            raise _gone(output.err.strip())
        unit, total, free = (int(word) for word in output.out.split())
        return Space(unit * total, unit * free)

    async def _mount(self, request: MountRequest, path: Path) -> None:
        if path in await self.mounted():
            return
        found = Path(await self._ask("mount", request))
        if found not in await self.mounted():
            raise Unavailable(
                "A share was mounted, and the host's table of mounts does not show it. See to the "
                "mount command of this host.",
                private=str(found),
            )

    async def _ask(self, verb: str, arguments: Struct) -> Any:
        """Ask a helper that has nothing else to do; a share that hangs holds up no other."""
        idle = (worker for worker in self._workers if not worker.is_busy)
        worker = next(idle, self._workers[0])
        return await worker.ask(verb, arguments, timeout_s=self.settings.timeout_s)

    def _path(self, request: MountRequest) -> Path:
        return mount_point(Path(request.base), request.export)

    def _is_in_use(self, path: Path) -> bool:
        """Ask one user after the other, no more than it takes to find one."""
        return any(path in users() for users in self._users)


def mount_point(base: Path, export: str) -> Path:
    """Return where os-brick mounts an export: the facts call it `{base}/{md5(export)}`."""
    name = hashlib.md5(export.encode(), usedforsecurity=False).hexdigest()
    return base / name


def read_mount_flags(options: Any) -> tuple[str, ...]:
    """Return mount options as upstream writes them, `-o rw,vers=4.2`, in words.

    Raises Invalid for anything else: these words come from elsewhere and go to mount.
    """
    words = options.split() if isinstance(options, str) else []
    pairs = list(zip(words[::2], words[1::2], strict=False))
    if len(words) % 2 or any(flag != "-o" or value.startswith("-") for flag, value in pairs):
        raise Invalid("The mount options of a share are not of the form `-o NAME,NAME=VALUE`.")
    return tuple(words)


def read_mount_points(table: Path) -> dict[Path, frozenset[str]]:
    """Return the mount points of a table in the form of /proc/self/mountinfo.

    With each go the type of its file system and the options that this one runs with.
    """
    found: dict[Path, frozenset[str]] = {}
    for line in table.read_text("utf-8", "replace").splitlines():
        mount, _, system = line.partition(" - ")
        words, told = mount.split(), system.split()
        if len(words) > 4:
            found[Path(_unescape(words[4]))] = frozenset(told[:1] + "".join(told[2:]).split(","))
    return found


def _unescape(word: str) -> str:
    """Undo what proc(5) does to blanks and backslashes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), word)


def _remove(path: Path) -> None:
    """Remove the directory of a mount, if it is empty."""
    with suppress(OSError):
        path.rmdir()


def _gone(private: str) -> Unavailable:
    return Unavailable(
        "A share does not answer on this host. See to its server and the network between; ask "
        "again then.",
        private=private,
    )
