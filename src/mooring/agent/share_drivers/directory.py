"""Shares as directories of this machine, for its own guests.

No server gives them away: a host of the same machine binds the directory to where its guests take
it from, and asks the rules whether it may. A directory has no size of its own, so the pool says
that it keeps no quota; making a share smaller looks at what is in it.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec.structs import replace

from mooring import limits
from mooring.agent.files import sync_directory
from mooring.agent.identities import RECORDS
from mooring.agent.known_storage import KnownStorage, PoolPlace
from mooring.agent.pool_threads import PoolThreads
from mooring.agent.qemu_img import GIB
from mooring.agent.run import Budget, Runner
from mooring.agent.settings import SharePoolSettings
from mooring.agent.share_drivers.base import (
    Grant,
    WithoutSnapshots,
    check_client_is_free,
    check_room,
    check_same,
    no_snapshots,
    refuse_smaller,
    require,
)
from mooring.agent.share_drivers.records import KeptRule, Record, Records
from mooring.agent_api.shares import (
    ExportLocation,
    HostedShare,
    Protocol,
    SharePool,
    ShareSnapshotName,
)
from mooring.errors import Unavailable

SHARE_PREFIX, _REMOVED = "share-", "removed-"
_LOOK = Budget(timeout_s=limits.AGENT_LONG_CALL_S, cpu_s=0)


class DirectoryShares(WithoutSnapshots):
    """Implements `ShareDriver`."""

    def __init__(self, pool: SharePoolSettings, place: PoolPlace, ip: str, runner: Runner) -> None:
        self._pool, self._runner = pool, runner
        self._threads = PoolThreads(pool.name)
        self._known = KnownStorage(pool.name, place, self._threads, self._prepare)
        self._run = self._known.run
        # As mounts show it, without links.
        self._directory = place.path.resolve()
        self._server = f"[{ip}]" if ":" in ip else ip
        self._records = Records(self._directory / RECORDS)

    @property
    def pool(self) -> SharePoolSettings:
        return self._pool

    @property
    def protocol(self) -> Protocol:
        return "NFS"

    def path(self, share_id: str) -> Path:
        """Return where a share is, or would be."""
        return self._directory / f"{SHARE_PREFIX}{share_id}"

    async def setup(self) -> None:
        await self._known.setup()

    async def close(self) -> None:
        self._threads.close()

    async def stats(self) -> SharePool:
        return await self._run(self._stats)

    async def shares(self) -> list[HostedShare]:
        return await self._run(self._shares)

    async def find(self, share_id: str) -> HostedShare | None:
        if await self._run(lambda: self._find(share_id)) is None:
            return None
        used_bytes = await self._measure(share_id)
        return await self._run(lambda: self._find(share_id, used_bytes))

    async def create(
        self, share_id: str, size_gb: int, source: ShareSnapshotName | None, operation_key: str
    ) -> list[ExportLocation]:
        del operation_key
        if source is not None:
            raise no_snapshots(source.share, source.snapshot)
        if (known := await self._run(lambda: self._find(share_id))) is not None:
            return check_same(known, size_gb)
        check_room(await self.stats(), self._pool, size_gb)

        def make() -> None:
            # The directory comes last and goes first: a record alone is no share.
            self._records.keep(share_id, Record(size_gb))
            self.path(share_id).mkdir(mode=0o755)
            sync_directory(self._directory)

        await self._run(make)
        return self._exports(share_id)

    async def delete(self, share_id: str) -> None:
        removed = self._directory / f"{_REMOVED}{share_id}"

        # What a removal that was killed has left of an earlier share of that id.
        await self._remove(removed)

        def hide() -> None:
            if self.path(share_id).exists():
                self.path(share_id).rename(removed)
                sync_directory(self._directory)

        await self._run(hide)
        await self._remove(removed)
        await self._run(lambda: self._records.forget(share_id))

    async def resize(self, share_id: str, size_gb: int, operation_key: str) -> None:
        del operation_key
        known = require(await self._run(lambda: self._find(share_id)), share_id)
        if size_gb > known.size_gb:
            check_room(await self.stats(), self._pool, size_gb - known.size_gb)
        elif size_gb < known.size_gb and await self._measure(share_id) > size_gb * GIB:
            raise refuse_smaller(share_id, size_gb)

        def write(record: Record) -> Record:
            return replace(record, size_gb=size_gb)

        await self._run(lambda: self._records.change(share_id, write))

    async def grant(self, share_id: str, grant: Grant) -> str | None:
        known = require(await self._run(lambda: self._find(share_id)), share_id)
        rule = grant.rule
        check_client_is_free(known.rules, rule)
        kept = KeptRule(rule.type, rule.to, rule.level)
        await self._run(lambda: self._records.keep_rule(share_id, rule.rule_id, kept))
        return None

    async def revoke(self, share_id: str, rule_id: str) -> None:
        await self._run(lambda: self._records.keep_rule(share_id, rule_id, None))

    async def leftovers(self) -> list[str]:
        return await self._run(self._leftovers)

    async def _prepare(self) -> None:
        def prepare() -> list[Path]:
            self._directory.mkdir(mode=0o711, parents=True, exist_ok=True)
            self._records.prepare()
            return list(self._directory.glob(f"{_REMOVED}*"))

        for left in await self._threads.prepare(prepare, self._directory):
            await self._remove(left)

    async def _measure(self, share_id: str) -> int:
        """Return how many bytes the files of a share take. Raises Unavailable."""
        words = ["--summarize", "--one-file-system", "--block-size=1", "--"]
        output = await self._runner.run(["du", *words, str(self.path(share_id))], _LOOK)
        # Files that go while it looks make it complain, and it sums up all the same.
        total = output.out.partition("\t")[0]
        if not total.isdigit():
            raise Unavailable(
                f"What is in share {share_id} cannot be measured now. Ask again.",
                private=output.err,
            )
        return int(total)

    async def _remove(self, path: Path) -> None:
        """Remove a directory that is no share any more. Raises Unavailable while it cannot."""
        argv = ["rm", "--recursive", "--force", "--one-file-system", "--", str(path)]
        output = await self._runner.run(argv, _LOOK)
        if output.code:
            raise Unavailable(
                f"What was in {path.name} cannot be removed. See to the directory of pool "
                f"{self._pool.name}, and ask again.",
                private=output.err,
            )

    def _find(self, share_id: str, used_bytes: int | None = None) -> HostedShare | None:
        record = self._records.find(share_id)
        if record is None or not self.path(share_id).is_dir():
            return None
        return HostedShare(
            share_id=share_id,
            pool=self._pool.name,
            protocol=self.protocol,
            size_gb=record.size_gb,
            used_bytes=used_bytes,
            exports=self._exports(share_id),
            rules=record.shown(),
        )

    def _shares(self) -> list[HostedShare]:
        found = (self._look(share_id) for share_id in self._records.ids())
        return [share for share in found if share is not None]

    def _look(self, share_id: str) -> HostedShare | None:
        """Return a share for a list; one whose record is damaged says so, and hides no other."""
        try:
            return self._find(share_id)
        except Unavailable as error:
            if not self.path(share_id).is_dir():
                return None
            return HostedShare(
                share_id=share_id,
                pool=self._pool.name,
                protocol=self.protocol,
                size_gb=0,
                exports=self._exports(share_id),
                problem=error.public,
            )

    def _stats(self) -> SharePool:
        held = self._shares()
        space = os.statvfs(self._directory)
        total = space.f_blocks * space.f_frsize / GIB
        reserve = total * self._pool.reserved_percent / 100
        return SharePool(
            name=self._pool.name,
            driver=self._pool.driver,
            protocol=self.protocol,
            total_gib=round(total, 2),
            free_gib=round(max(0.0, space.f_bavail * space.f_frsize / GIB - reserve), 2),
            provisioned_gib=sum(share.size_gb for share in held),
            shares=len(held),
            reserved_percent=self._pool.reserved_percent,
            oversubscription=self._pool.oversubscription,
            quota=False,
        )

    def _exports(self, share_id: str) -> list[ExportLocation]:
        return [ExportLocation(f"{self._server}:{self.path(share_id)}")]

    def _leftovers(self) -> list[str]:
        known = {
            path
            for share_id in self._records.ids()
            for path in (self.path(share_id), self._directory / f"{_REMOVED}{share_id}")
        }
        seen = (path for path in self._directory.iterdir() if path.name != RECORDS)
        return sorted(str(path) for path in seen if path not in known)
