"""The driver cephfs at work: with a real Ceph and its clients, or with what they have answered."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from mooring.agent.run import Programs, Runner
from mooring.agent.settings import SharePoolSettings
from mooring.agent.share_drivers.cephfs import CephfsShares
from mooring.agent.share_drivers.options import CephfsShareOptions
from mooring.fence.journal import Journal
from mooring.fence.threads import run_to_end
from tests.agent.ceph_cluster import FILE_SYSTEM, POOL_CLIENT, CephCluster
from tests.agent.share_pools import SharesAtWork
from tests.agent.tapes import Player, Recorder

_TAPE = "cephfs"
_WRONG_KEY = "AQBaaaaaAAAAABAAaaaaaaaaaaaaaaaaaaaaaA=="
_groups = itertools.count(1)


class CephfsAtWork(SharesAtWork):
    """Shares of CephFS, which clients mount by ceph-fuse under `directory`."""

    def __init__(
        self, driver: CephfsShares, programs: Programs, directory: Path, config: str
    ) -> None:
        super().__init__(driver)
        self.cephfs, self.programs = driver, programs
        self._directory, self._config = directory, config
        self._keys: dict[str, str] = {}

    async def level(self, share_id: str, number: int = 1, key: str | None = None) -> str:
        """Try by a mount of a client's own, with its key or a wrong one: write, or else look."""
        if not (path := await self.path(share_id)):
            return ""
        if not await self.mount(path, "try", self.client(number), key or _WRONG_KEY):
            return ""
        try:
            point = self._directory / "try"
            if not (await self.programs.run(["touch", "--", str(point / "tried")])).code:
                return "rw"
            return "" if (await self.programs.run(["ls", "--", str(point)])).code else "ro"
        finally:
            await self.unmount("try")

    async def write(self, share_id: str, size_bytes: int) -> None:
        """Let another client write a file without a single byte, which counts with its size."""
        key = await self.driver.grant(share_id, self.grant("writer", number=9))
        assert key is not None
        path = await self.path(share_id)
        assert await self.mount(path, "writer", self.client(9), key)
        file = str(self._directory / "writer" / "content")
        done = await self.programs.run(["truncate", f"--size={size_bytes}", "--", file])
        await self.unmount("writer")
        await self.driver.revoke(share_id, "writer")
        assert not done.code, done.err
        # What is in a directory is counted from below, a little later.
        for _ in range(50):
            if abs(await self.used(share_id) - size_bytes) < 1024**2:
                return
        raise AssertionError("Ceph does not count what was written")

    async def mount(self, path: str, name: str, client: str, key: str) -> bool:
        """Mount a path as a client; return whether Ceph lets it."""
        point, keyring = self._directory / name, self._directory / f"{name}.keyring"

        def lay() -> None:
            point.mkdir(exist_ok=True)
            keyring.write_text(f"[client.{client}]\n\tkey = {key}\n", "ascii")

        await run_to_end(lay)
        who = ["--conf", self._config, "--name", f"client.{client}", "--keyring", str(keyring)]
        words = ["ceph-fuse", *who, "-r", path, "--client_mount_timeout=5", str(point)]
        return not (await self.programs.run(words)).code

    async def path(self, share_id: str) -> str:
        """Return where a share is in the file system, "" when there is none."""
        options = self.cephfs.options
        who = ["--id", options.client, "--conf", options.conf]
        named = [options.filesystem, share_id, "--group_name", options.group]
        asked = ["ceph", *who, "fs", "subvolume", "getpath", *named]
        return (await self.programs.run(asked)).out.strip()

    async def unmount(self, name: str) -> None:
        """Unmount it, also when Ceph has thrown the client out."""
        await self.programs.run(["umount", "--lazy", "--", str(self._directory / name)])


@asynccontextmanager
async def recorded_cephfs(
    pool: SharePoolSettings, directory: Path, test: str
) -> AsyncGenerator[CephfsAtWork]:
    """Set up a pool that gets the answers of a tape."""
    names = {"dir": str(directory), "config": "/nowhere/ceph.conf", "group": "recorded"}
    player = Player(_TAPE, test, names)
    async with _at_work(pool, directory, player, names) as opened:
        yield opened
    player.check_end()


@asynccontextmanager
async def real_cephfs(
    pool: SharePoolSettings,
    directory: Path,
    journal: Journal,
    cluster: CephCluster,
    record_as: str = "",
) -> AsyncGenerator[CephfsAtWork]:
    """Set up a pool in a group of its own; `record_as` is the test whose answers are kept."""
    group = f"group-{next(_groups)}"
    names = {"dir": str(directory), "config": str(cluster.config), "group": group}
    runner = Runner(journal)
    recorder = Recorder(runner, names)
    programs: Programs = recorder if record_as else runner
    async with _at_work(pool, directory, programs, names) as opened:
        yield opened
        if record_as:
            recorder.save(_TAPE, record_as)
    await _clear(CephfsShares(opened.cephfs.pool, opened.cephfs.options, runner))


@asynccontextmanager
async def _at_work(
    pool: SharePoolSettings, directory: Path, programs: Programs, names: Mapping[str, str]
) -> AsyncGenerator[CephfsAtWork]:
    options = CephfsShareOptions(
        conf=names["config"], client=POOL_CLIENT, filesystem=FILE_SYSTEM, group=names["group"]
    )
    driver = CephfsShares(replace(pool, driver="cephfs", cephfs=options), options, programs)
    await driver.setup()
    try:
        yield CephfsAtWork(driver, programs, directory, names["config"])
    finally:
        await driver.close()


async def _clear(driver: CephfsShares) -> None:
    """Remove what a test has left: ids of clients are the whole cluster's."""
    for share in await driver.shares():
        for snapshot_id in share.snapshots:
            await driver.delete_snapshot(share.share_id, snapshot_id)
        await driver.delete(share.share_id)
