"""The driver nfs at work: with a real Ganesha and its clients, or with what they have answered."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from mooring.agent.run import Programs, Runner
from mooring.agent.settings import SharePoolSettings
from mooring.agent.share_drivers.nfs import NfsShares
from mooring.agent.share_drivers.options import NfsShareOptions
from mooring.agent.waiting import until
from mooring.fence.journal import Journal
from tests.agent.nfs_server import ADDRESS, nfs_server
from tests.agent.places import place
from tests.agent.share_pools import SharesAtWork
from tests.agent.tapes import Player, Recorder

_TAPE = "nfs"


class NfsAtWork(SharesAtWork):
    """Shares of Ganesha. `net` begins the names of the namespaces of its clients."""

    def __init__(self, driver: NfsShares, programs: Programs, net: str) -> None:
        super().__init__(driver)
        self.nfs, self.programs, self.net = driver, programs, net
        self._tries = itertools.count()

    async def level(self, share_id: str, number: int = 1, key: str | None = None) -> str:
        """Try by a client's own mount: list, then write."""
        del key
        mounted = ["ip", "netns", "exec", f"{self.net}c{number}"]
        share = f"nfs://{ADDRESS}/shares/{share_id}"
        listed = await self.programs.run([*mounted, "nfs-ls", f"{share}?version=4"])
        if listed.code:
            assert "NFS4ERR_NOENT" in listed.err, listed.err
            return ""
        file = f"{share}/try-{next(self._tries)}?version=4"
        copied = await self.programs.run([*mounted, "nfs-cp", "/etc/hostname", file])
        if copied.code:
            assert "NFS4ERR_ROFS" in copied.err, copied.err
            return "ro"
        return "rw"

    async def settle(self) -> None:
        assert await until(lambda: not is_restoring(), 30)

    async def write(self, share_id: str, size_bytes: int) -> None:
        """Write beside the server: its tools for clients write a line and no more."""
        path = self.nfs.data(share_id)
        length = f"--length={size_bytes}"
        written = await self.programs.run(["fallocate", length, "--", str(path / "content")])
        assert not written.code, written.err
        await self.programs.run(["sync", "--file-system", "--", str(path)])


def is_restoring() -> bool:
    """Return whether a driver still gives shares away again."""
    coroutines = (task.get_coro() for task in asyncio.all_tasks())
    return any("Restoring" in getattr(one, "__qualname__", "") for one in coroutines)


@asynccontextmanager
async def recorded_nfs(
    pool: SharePoolSettings, directory: Path, test: str
) -> AsyncGenerator[NfsAtWork]:
    """Set up a pool that gets the answers of a tape."""
    names = {"dir": str(directory), "bus": "unix:path=/nowhere/bus", "net": "nowhere"}
    player = Player(_TAPE, test, names)
    async with _at_work(pool, directory, player, names) as opened:
        yield opened
    player.check_end()


@asynccontextmanager
async def real_nfs(
    pool: SharePoolSettings, directory: Path, journal: Journal, record_as: str = ""
) -> AsyncGenerator[NfsAtWork]:
    """Set up a pool on a server of its own; `record_as` is the test whose answers are kept."""
    async with nfs_server(directory / "shares" / "exports" / "index.conf") as server:
        names = {"dir": str(directory), "bus": server.bus, "net": server.net}
        runner = Runner(journal)
        recorder = Recorder(runner, names)
        programs: Programs = recorder if record_as else runner
        async with _at_work(pool, directory, programs, names) as opened:
            try:
                yield opened
                if record_as:
                    recorder.save(_TAPE, record_as)
            finally:
                await server.stop()
                await unmount(opened, runner)


@asynccontextmanager
async def _at_work(
    pool: SharePoolSettings, directory: Path, programs: Programs, names: Mapping[str, str]
) -> AsyncGenerator[NfsAtWork]:
    options = NfsShareOptions(address=ADDRESS, bus=names["bus"])
    made = replace(pool, driver="nfs", nfs=options)
    driver = NfsShares(made, options, place(directory / "shares"), programs)
    await driver.setup()
    try:
        yield NfsAtWork(driver, programs, names["net"])
    finally:
        await driver.close()


async def unmount(opened: NfsAtWork, programs: Programs) -> None:
    """Unmount what a test has left."""
    for share in await NfsShares.shares(opened.nfs):
        mount_point = opened.nfs.data(share.share_id).parent
        done = await programs.run(["umount", "--", str(mount_point)])
        assert not done.code, done.err
