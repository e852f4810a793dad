"""A cloud of the share service alone, with a host of two pools: one of NFS, one of CephFS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace
from sqlalchemy import select

from mooring.agent.settings import SharePoolSettings
from mooring.agent.share_drivers.simulated import SimulatedShares
from mooring.saga.tables import LockRow, SagaRow
from mooring.share.access import rule_rows
from mooring.share.app import SERVICE
from mooring.share.service import Share
from mooring.share.shares import statuses
from mooring.share.tables import ReservationRow, RuleRow, ShareRow, SnapshotRow
from tests.answers import Answer
from tests.cloud import SimulatedCloud

UNKNOWN = "99999999-9999-4999-8999-999999999999"
POOLS = (
    SharePoolSettings(driver="simulated", name="files", total_gib=100),
    SharePoolSettings(driver="simulated", name="ceph", protocol="CEPHFS", total_gib=100),
)


class ShareCloud(SimulatedCloud):
    """The service, its host `host1`, and whoever asks it."""

    root, user, version = "/share/v2", "member", "2.82"

    def __init__(self, directory: Path, **how: Any) -> None:
        super().__init__(
            directory, services=(SERVICE,), roles={"host1": ("share",)}, inline=True, **how
        )
        self.hosts["host1"] = replace(self.hosts["host1"], share_pools=POOLS)

    async def open_control(self) -> None:
        await super().open_control()
        self.share: Share = self.cloud[SERVICE]
        self.engine, self.store = self.share.sagas, self.share.store

    def storage(self, pool: str = "files") -> SimulatedShares:
        driver = self.agents["host1"].agent.share_drivers[pool]
        assert isinstance(driver, SimulatedShares)
        return driver

    async def make(self, *, size: int = 1, proto: str = "NFS", **fields: Any) -> str:
        """Make a share and return its id once its fate is known."""
        user = fields.pop("user", "member")
        body = {"share": {"size": size, "share_proto": proto, **fields}}
        answer = await self.ask("POST", "/shares", body, user=user)
        assert answer.status == 200, answer.content
        await self.settle()
        return answer.body["share"]["id"]

    async def show(self, share_id: str, *, user: str = "admin", version: str = "2.82") -> Any:
        answer = await self.ask("GET", f"/shares/{share_id}", user=user, version=version)
        assert answer.status == 200, answer.content
        return answer.body["share"]

    async def status(self, share_id: str) -> str:
        return (await self.show(share_id))["status"]

    async def act(self, share_id: str, action: str, value: Any = None, **more: Any) -> Answer:
        return await self.ask("POST", f"/shares/{share_id}/action", {action: value}, **more)

    async def allow(self, share_id: str, to: str = "10.0.0.1", **fields: Any) -> str:
        """Let a client in and return the rule's id once its fate is known."""
        kind = "ip" if "." in to or ":" in to else "cephx"
        value = {"access_type": kind, "access_to": to, **fields}
        answer = await self.act(share_id, "allow_access", value)
        assert answer.status == 200, answer.content
        await self.settle()
        return answer.body["access"]["id"]

    async def rules(self, share_id: str) -> dict[str, str]:
        """Return the states of a share's rules, by whom they let in."""
        answer = await self.ask("GET", f"/share-access-rules?share_id={share_id}", user="admin")
        return {rule["access_to"]: rule["state"] for rule in answer.key("access_list")}

    async def let_in(self, share_id: str, pool: str = "files") -> dict[str, str]:
        """Return whom the storage lets in, and how."""
        found = await self.storage(pool).find(share_id)
        return {} if found is None else {rule.to: rule.level for rule in found.rules}

    async def snapshot(self, share_id: str, **fields: Any) -> str:
        """Take a snapshot and return its id once its fate is known."""
        body = {"snapshot": {"share_id": share_id, **fields}}
        answer = await self.ask("POST", "/snapshots", body)
        assert answer.status == 202, answer.content
        await self.settle()
        return answer.body["snapshot"]["id"]

    async def messages(self, resource_id: str) -> list[Any]:
        answer = await self.ask("GET", f"/messages?resource_id={resource_id}")
        return answer.key("messages")

    async def usage(self, name: str = "gigabytes") -> dict[str, int]:
        """Return limit, in_use and reserved of a resource of the members' project."""
        from tests.callers import PROJECT

        answer = await self.ask("GET", f"/quota-sets/{PROJECT}/detail", user="admin")
        return answer.key("quota_set")[name]

    async def complaints(self) -> list[str]:
        """Return what rests, is held, or is in a transitional status without an owner."""

        def look(tx: Any) -> list[str]:
            query = select(SagaRow.name, SagaRow.step).where(SagaRow.state != "ended")
            found = [f"saga {name} rests at {step}" for name, step in tx.execute(query)]
            found += [f"lock {key} is held" for key in tx.execute(select(LockRow.key)).scalars()]
            for row in tx.execute(select(ShareRow)).scalars():
                if row.status in statuses.TRANSITIONAL:
                    found.append(f"share {row.id} is {row.status}")
            for table in (RuleRow, SnapshotRow):
                marked = select(table.id).where(table.saga_id != "")
                found += [f"{row} is marked" for row in tx.execute(marked).scalars()]
            moving = select(RuleRow.id).where(RuleRow.state.in_(rule_rows.TRANSITIONAL))
            found += [f"rule {row} moves" for row in tx.execute(moving).scalars()]
            reserved = select(ReservationRow.share_id)
            found += [f"share {row} has a reservation" for row in tx.execute(reserved).scalars()]
            return found

        return await self.store.read(look)
