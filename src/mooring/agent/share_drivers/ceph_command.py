"""The `ceph` command about subvolumes: each call may be ended and asked again.

Statuses are those of errno. Source: facts/distributed_storage.md 1.8 and 2.2.
"""

from __future__ import annotations

import errno
import re
from typing import Any

import msgspec
from msgspec import Struct

from mooring import typed
from mooring.agent.run import Budget, Output, Programs
from mooring.agent.share_drivers.options import CephfsShareOptions
from mooring.errors import Unavailable

# Its Python reserves far more than it uses, a stack and an arena for each of librados' threads.
_BUDGET = Budget(memory_bytes=8 * 1024**3)
# The same status says that a whole file system is gone, which is no subvolume that was deleted.
_GONE = re.compile(r"subvolume (group )?'[^']*' does not exist")
_NO_GROUP = "_nogroup"
_UNKNOWN = re.compile(r"auth ID: .* doesn't exist|failed to find client\.")
_RIGHT = re.compile(r"allow (rw?) path=/volumes/([^/,]+)/([^/,]+)")


class Subvolume(Struct, frozen=True):
    """What a subvolume is, as `fs subvolume info` tells it."""

    bytes_quota: int | str
    """In bytes, or a word when it has none."""
    bytes_used: int
    path: str
    mon_addrs: list[str]


class Place(Struct, frozen=True):
    """A subvolume that a client is let in to, and how: rw or r."""

    level: str
    group: str
    name: str


class _Named(Struct, frozen=True):
    name: str


class _PoolStats(Struct, frozen=True):
    stored: int
    max_avail: int


class _Pool(Struct, frozen=True):
    name: str
    stats: _PoolStats


class _Space(Struct, frozen=True):
    pools: list[_Pool]


class _Entity(Struct, frozen=True):
    caps: dict[str, str]


class _FileSystem(Struct, frozen=True):
    name: str
    data_pools: list[str]


class CephCommand:
    """One group of subvolumes of one file system. Raises Unavailable when Ceph does not answer."""

    def __init__(self, options: CephfsShareOptions, programs: Programs) -> None:
        self._options, self._programs = options, programs

    async def make_group(self) -> None:
        """Make the group, unless it is there."""
        options = self._options
        await self._ask("fs", "subvolumegroup", "create", options.filesystem, options.group)

    async def list(self) -> list[str]:
        """Return the names of all subvolumes, sorted; none without the group."""
        words = ("fs", "subvolume", "ls", self._options.filesystem, *self._group)
        output = await self._ask(*words, but=_GONE)
        return [] if output.code else sorted(one.name for one in _read(output, list[_Named]))

    async def info(self, name: str) -> Subvolume | None:
        """Return what a subvolume is, or None."""
        output = await self._on("info", name, but=_GONE)
        return None if output.code else _read(output, Subvolume)

    async def create(self, name: str, size_bytes: int, mode: str) -> None:
        """Make a subvolume, whose objects lie in a namespace of its own."""
        more = ("--size", str(size_bytes), "--namespace-isolated", "--mode", mode)
        await self._on("create", name, *more)

    async def remove(self, name: str) -> None:
        """Remove a subvolume, or nothing. Its content goes in the background."""
        await self._on("rm", name, "--force")

    async def resize(self, name: str, size_bytes: int) -> bool:
        """Set a subvolume's size; return whether there is room for what is in it."""
        words = ("resize", name, str(size_bytes), "--no_shrink")
        return not (await self._on(*words, status=errno.EINVAL)).code

    async def authorize(self, name: str, client: str, level: str, project: str) -> str | None:
        """Let a client in and return its key; None when somebody else has an id of that name."""
        more = (client, "--access-level", level, "--tenant-id", project)
        output = await self._on("authorize", name, *more, status=errno.EPERM)
        return None if output.code else output.out.strip()

    async def authorize_again(self, place: Place, client: str, project: str) -> bool:
        """Let a client in where it is let in; return whether it could be, in whatever group.

        Nobody can where the subvolume is gone, or the id is somebody else's.
        """
        more = (client, "--access-level", place.level, "--tenant-id", project)
        # What Ceph calls so is no group by that name: it is where those without one are.
        group = () if place.group == _NO_GROUP else ("--group_name", place.group)
        words = ("fs", "subvolume", "authorize", self._options.filesystem, place.name)
        output = await self._ask(*words, *more, *group, status=errno.EPERM, but=_GONE)
        return not output.code

    async def deauthorize(self, name: str, client: str) -> None:
        """Let a client in no more, and end its mounts."""
        await self._on("deauthorize", name, client, but=_UNKNOWN)
        await self.evict(name, client)

    async def places(self, client: str) -> list[Place]:
        """Return all that a client is let in to, in whatever group."""
        output = await self._ask("auth", "get", f"client.{client}", but=_UNKNOWN)
        if output.code:
            return []
        [entity] = _read(output, list[_Entity])
        return [Place(*found) for found in _RIGHT.findall(entity.caps.get("mds", ""))]

    async def evict(self, name: str, client: str) -> None:
        """End a client's mounts of a subvolume, for good."""
        await self._on("evict", name, client)

    async def authorized(self, name: str) -> list[str]:
        """Return the clients that a subvolume lets in."""
        found = _read(await self._on("authorized_list", name), list[dict[str, str]])
        return sorted(client for one in found for client in one)

    async def notes(self, name: str) -> dict[str, str] | None:
        """Return what is noted beside a subvolume, or None without one."""
        output = await self._on("metadata ls", name, but=_GONE)
        return None if output.code else _read(output, dict[str, str])

    async def note(self, name: str, key: str, value: str) -> None:
        """Note something beside a subvolume."""
        await self._on("metadata set", name, key, value)

    async def strike(self, name: str, key: str) -> None:
        """Strike a note, or nothing."""
        await self._on("metadata rm", name, key, "--force")

    async def take_snapshot(self, name: str, snapshot: str) -> bool:
        """Take a snapshot, unless it is there; return whether there is such a subvolume."""
        return not (await self._on("snapshot create", name, snapshot, but=_GONE)).code

    async def remove_snapshot(self, name: str, snapshot: str) -> None:
        """Remove a snapshot, or nothing."""
        await self._on("snapshot rm", name, snapshot, "--force", but=_GONE)

    async def snapshots(self, name: str) -> list[str] | None:
        """Return the names of a subvolume's snapshots, sorted, or None without one."""
        output = await self._on("snapshot ls", name, but=_GONE)
        return None if output.code else sorted(one.name for one in _read(output, list[_Named]))

    async def space(self) -> tuple[int, int]:
        """Return how many bytes the file system's first data pool has, and how many are free.

        Raises Unavailable as well while Ceph has not counted a pool yet that is new to it.
        """
        systems = _read(await self._ask("fs", "ls"), list[_FileSystem])
        named = [one for one in systems if one.name == self._options.filesystem]
        if not named:
            raise Unavailable(
                f"Ceph has no file system {self._options.filesystem}. See to the option "
                "`filesystem` of the pool."
            )
        pool = named[0].data_pools[0]
        counted = {one.name: one.stats for one in _read(await self._ask("df"), _Space).pools}
        if (stats := counted.get(pool)) is None:
            raise Unavailable(
                f"Ceph has not counted its pool {pool} yet, as it does a moment after it was made "
                "or after its manager has started. Ask again."
            )
        return stats.stored + stats.max_avail, stats.max_avail

    @property
    def _group(self) -> tuple[str, str]:
        return "--group_name", self._options.group

    async def _on(
        self, verb: str, name: str, *more: str, status: int = 0, but: re.Pattern[str] | None = None
    ) -> Output:
        words = ("fs", "subvolume", *verb.split(), self._options.filesystem, name)
        return await self._ask(*words, *more, *self._group, status=status, but=but)

    async def _ask(
        self, *words: str, status: int = 0, but: re.Pattern[str] | None = None
    ) -> Output:
        """Run the command, which may end with a status, or with ENOENT and words of `but`."""
        options = self._options
        who = ["--id", options.client, "--conf", options.conf, "--connect-timeout", "10"]
        argv = ["ceph", *who, "--format", "json", *words]
        output = await self._programs.run(argv, _BUDGET)
        gone = output.code == errno.ENOENT and but is not None and but.search(output.err)
        if output.code not in {0, status} and not gone:
            raise Unavailable(
                "Ceph did not do what a share needs. What it did before stands; see to the cluster "
                "and to the rights of the pool's client, and ask again.",
                private=f"{' '.join(words)}: {output.code}: {output.err.strip()[-500:]}",
            )
        return output


def _read(output: Output, kind: Any) -> Any:
    try:
        return typed.decode(output.out.encode(), kind)
    except msgspec.DecodeError as error:
        raise Unavailable(
            "Ceph answered what nobody understands. Ask again.", private=output.out[:500]
        ) from error
