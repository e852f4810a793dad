"""Shares without storage: a ledger of what was made and who may mount it, in a small file.

It takes what the real drivers take: of NFS what `nfs` does, of CephFS what `cephfs` does.
"""

from __future__ import annotations

import secrets
import sqlite3
import time
from pathlib import Path

from msgspec import Struct

from mooring.agent import simulated_share_pool
from mooring.agent.knobs import Knobs
from mooring.agent.pool_threads import failure_told
from mooring.agent.qemu_img import GIB
from mooring.agent.settings import SharePoolSettings
from mooring.agent.share_drivers.base import (
    Grant,
    check_client_is_free,
    check_room,
    check_same,
    check_source_fits,
    no_copies,
    refuse_smaller,
    refuse_with_snapshots,
    require,
    require_snapshot,
    used_elsewhere,
)
from mooring.agent_api.shares import (
    ExportLocation,
    GrantedRule,
    HostedShare,
    Protocol,
    SharePool,
    ShareSnapshotName,
)
from mooring.errors import Conflict

DEFAULT_GIB = 10_240
_END_RULES = "UPDATE rules SET until = ? WHERE share_id = ? AND until IS NULL"
_END_RULE = "UPDATE rules SET until = ? WHERE share_id = ? AND rule_id = ? AND until IS NULL"


class Allowed(Struct, frozen=True):
    """One span of time in which a client could mount a share. Unix times; `until` None: still."""

    share_id: str
    rule_id: str
    client: str
    level: str
    since: float
    until: float | None


class SimulatedShares:
    """Implements `ShareDriver`.

    `knobs` points: find, create, delete, resize, grant, revoke, snapshot, delete_snapshot.
    """

    def __init__(self, pool: SharePoolSettings, file: Path, ip: str) -> None:
        self._pool, self._file, self._ip = pool, file, ip
        self._total_gib = pool.total_gib or DEFAULT_GIB
        self._open: sqlite3.Connection | None = None
        self.knobs = Knobs()

    @property
    def pool(self) -> SharePoolSettings:
        return self._pool

    @property
    def protocol(self) -> Protocol:
        return self._pool.protocol

    async def setup(self) -> None:
        self._open = simulated_share_pool.open_pool(self._file)

    async def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    async def stats(self) -> SharePool:
        query = "SELECT count(*), coalesce(sum(size_gb), 0), sum(used_bytes) FROM shares"
        count, provisioned, used = self._db.execute(query).fetchone()
        reserve = self._total_gib * self._pool.reserved_percent / 100
        return SharePool(
            name=self._pool.name,
            driver="simulated",
            protocol=self.protocol,
            total_gib=self._total_gib,
            free_gib=max(0.0, self._total_gib - reserve - (used or 0) / GIB),
            provisioned_gib=provisioned,
            shares=count,
            reserved_percent=self._pool.reserved_percent,
            oversubscription=self._pool.oversubscription,
            snapshots=True,
            from_snapshot=self.protocol == "NFS",
        )

    async def shares(self) -> list[HostedShare]:
        rows = self._db.execute("SELECT * FROM shares ORDER BY id").fetchall()
        return [self._show(*row) for row in rows]

    async def find(self, share_id: str) -> HostedShare | None:
        await self._at("find")
        row = self._db.execute("SELECT * FROM shares WHERE id = ?", (share_id,)).fetchone()
        return None if row is None else self._show(*row)

    async def create(
        self, share_id: str, size_gb: int, source: ShareSnapshotName | None, operation_key: str
    ) -> list[ExportLocation]:
        del operation_key
        await self._at("create")
        if source is not None and self.protocol == "CEPHFS":
            raise no_copies(source)
        if (known := await self.find(share_id)) is not None:
            return check_same(known, size_gb)
        used_bytes = 0 if source is None else await self._copied_bytes(source, size_gb)
        check_room(await self.stats(), self._pool, size_gb)
        self._db.execute("INSERT INTO shares VALUES (?, ?, ?)", (share_id, size_gb, used_bytes))
        return self._exports(share_id)

    async def delete(self, share_id: str) -> None:
        await self._at("delete")
        if (known := await self.find(share_id)) is None:
            return
        refuse_with_snapshots(share_id, known.snapshots)
        with self._db:
            self._db.execute("BEGIN")
            self._db.execute(_END_RULES, (time.time(), share_id))
            self._db.execute("DELETE FROM shares WHERE id = ?", (share_id,))
            self._forget_clients()

    async def resize(self, share_id: str, size_gb: int, operation_key: str) -> None:
        del operation_key
        await self._at("resize")
        known = require(await self.find(share_id), share_id)
        if size_gb > known.size_gb:
            check_room(await self.stats(), self._pool, size_gb - known.size_gb)
        elif (known.used_bytes or 0) > size_gb * GIB:
            raise refuse_smaller(share_id, size_gb)
        self._db.execute("UPDATE shares SET size_gb = ? WHERE id = ?", (size_gb, share_id))

    async def grant(self, share_id: str, grant: Grant) -> str | None:
        await self._at("grant")
        known, rule = require(await self.find(share_id), share_id), grant.rule
        check_client_is_free(known.rules, rule)
        with self._db:
            self._db.execute("BEGIN")
            if rule not in known.rules:
                self._db.execute(_END_RULE, (time.time(), share_id, rule.rule_id))
                self._db.execute(
                    "INSERT INTO rules VALUES (?, ?, ?, ?, ?, ?, NULL)",
                    (share_id, rule.rule_id, rule.type, rule.to, rule.level, time.time()),
                )
            return self._give_key(grant) if rule.type == "cephx" else None

    async def revoke(self, share_id: str, rule_id: str) -> None:
        await self._at("revoke")
        with self._db:
            self._db.execute("BEGIN")
            self._db.execute(_END_RULE, (time.time(), share_id, rule_id))
            self._forget_clients()

    async def take_snapshot(self, share_id: str, snapshot_id: str) -> None:
        await self._at("snapshot")
        known = require(await self.find(share_id), share_id)
        self._db.execute(
            "INSERT OR IGNORE INTO snapshots VALUES (?, ?, ?, ?)",
            (share_id, snapshot_id, known.size_gb, known.used_bytes),
        )

    async def delete_snapshot(self, share_id: str, snapshot_id: str) -> None:
        await self._at("delete_snapshot")
        statement = "DELETE FROM snapshots WHERE share_id = ? AND id = ?"
        self._db.execute(statement, (share_id, snapshot_id))

    async def leftovers(self) -> list[str]:
        return []

    def write(self, share_id: str, used_bytes: int) -> None:
        """Let clients have written so much into a share. Raises Conflict when it has no room."""
        (size_gb,) = self._db.execute(
            "SELECT size_gb FROM shares WHERE id = ?", (share_id,)
        ).fetchone()
        if used_bytes > size_gb * GIB:
            raise Conflict(f"Share {share_id} is full: it has {size_gb} GiB.")
        self._db.execute("UPDATE shares SET used_bytes = ? WHERE id = ?", (used_bytes, share_id))

    def ledger(self) -> list[Allowed]:
        """Return which client could mount which share, and when."""
        query = "SELECT share_id, rule_id, client, level, since, until FROM rules ORDER BY since"
        return [Allowed(*row) for row in self._db.execute(query)]

    async def _at(self, point: str) -> None:
        with failure_told(self._pool.name):
            await self.knobs.at(point)

    @property
    def _db(self) -> sqlite3.Connection:
        if self._open is None:
            raise sqlite3.ProgrammingError("the simulated pool is not open")
        return self._open

    async def _copied_bytes(self, source: ShareSnapshotName, size_gb: int) -> int:
        require_snapshot(await self.find(source.share), source)
        query = "SELECT size_gb, used_bytes FROM snapshots WHERE share_id = ? AND id = ?"
        of_gb, used_bytes = self._db.execute(query, (source.share, source.snapshot)).fetchone()
        check_source_fits(source, of_gb, size_gb)
        return used_bytes

    def _give_key(self, grant: Grant) -> str:
        """Return the key of a cephx id, the same for all shares of its project."""
        query = "SELECT project_id, access_key FROM clients WHERE id = ?"
        row = self._db.execute(query, (grant.rule.to,)).fetchone()
        if row is None:
            row = (grant.project_id, secrets.token_urlsafe(30))
            self._db.execute("INSERT INTO clients VALUES (?, ?, ?)", (grant.rule.to, *row))
        if row[0] != grant.project_id:
            raise used_elsewhere(grant.rule.to)
        self._forget_clients()
        return row[1]

    def _forget_clients(self) -> None:
        """Let go of the keys that no rule needs any more."""
        self._db.execute(
            "DELETE FROM clients WHERE id NOT IN (SELECT client FROM rules WHERE until IS NULL)"
        )

    def _exports(self, share_id: str) -> list[ExportLocation]:
        ip = f"[{self._ip}]" if ":" in self._ip else self._ip
        servers = f"{ip}:6789" if self.protocol == "CEPHFS" else ip
        return [ExportLocation(simulated_share_pool.path_of(servers, self._file, share_id))]

    def _show(self, share_id: str, size_gb: int, used_bytes: int) -> HostedShare:
        rules = self._db.execute(
            "SELECT rule_id, type, client, level FROM rules WHERE share_id = ? AND until IS NULL "
            "ORDER BY rule_id",
            (share_id,),
        ).fetchall()
        snapshots = self._db.execute(
            "SELECT id FROM snapshots WHERE share_id = ? ORDER BY id", (share_id,)
        ).fetchall()
        return HostedShare(
            share_id=share_id,
            pool=self._pool.name,
            protocol=self.protocol,
            size_gb=size_gb,
            used_bytes=used_bytes,
            exports=self._exports(share_id),
            rules=[GrantedRule(rule_id=r, type=t, to=c, level=v) for r, t, c, v in rules],
            snapshots=[row[0] for row in snapshots],
        )
