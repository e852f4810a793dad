"""Shares as subvolumes of CephFS, whose clients are known by cephx ids.

All stands in Ceph: a rule is noted beside its subvolume before it is granted, so whoever runs the
agent later knows it, and one that is cut short is taken back by its id (ADR 12).
"""

from __future__ import annotations

import time

from mooring.agent.limits import AGENT_ARRAY_FRESH_S
from mooring.agent.qemu_img import GIB
from mooring.agent.run import Programs
from mooring.agent.settings import SharePoolSettings
from mooring.agent.share_drivers.base import (
    Grant,
    check_client_is_free,
    check_room,
    check_same,
    no_copies,
    refuse_smaller,
    refuse_with_snapshots,
    require,
    used_elsewhere,
)
from mooring.agent.share_drivers.ceph_command import CephCommand, Subvolume
from mooring.agent.share_drivers.options import CephfsShareOptions
from mooring.agent.turns import Turns
from mooring.agent_api.shares import (
    AccessLevel,
    ExportLocation,
    GrantedRule,
    HostedShare,
    Protocol,
    SharePool,
    ShareSnapshotName,
)
from mooring.errors import Invalid, Unavailable

_RULE = "rule."
_LEVELS: dict[AccessLevel, str] = {"rw": "rw", "ro": "r"}
_WORDS = 3
"""In the note of a rule: its level, its client and whose project that is."""


class DamagedNote(Unavailable):
    """A rule is noted beside a share, and what the note says cannot be read."""


class CephfsShares:
    """Implements `ShareDriver`."""

    def __init__(
        self, pool: SharePoolSettings, options: CephfsShareOptions, programs: Programs
    ) -> None:
        self._pool, self.options = pool, options
        self._ceph = CephCommand(options, programs)
        self._clients = Turns()
        self._sizes: dict[str, int] = {}
        """Of the shares in GiB, as they were told last: each costs a command of half a second."""
        self._space = 0, 0
        self._fresh_until = float("-inf")

    @property
    def pool(self) -> SharePoolSettings:
        return self._pool

    @property
    def protocol(self) -> Protocol:
        return "CEPHFS"

    async def setup(self) -> None:
        """Do nothing: a Ceph that does not answer must not keep the host from starting."""

    async def close(self) -> None:
        return

    async def stats(self) -> SharePool:
        await self._refresh()
        total, free = (size / GIB for size in self._space)
        reserve = total * self._pool.reserved_percent / 100
        return SharePool(
            name=self._pool.name,
            driver=self._pool.driver,
            protocol=self.protocol,
            total_gib=round(total, 2),
            free_gib=round(max(0.0, free - reserve), 2),
            provisioned_gib=sum(self._sizes.values()),
            shares=len(self._sizes),
            reserved_percent=self._pool.reserved_percent,
            oversubscription=self._pool.oversubscription,
            snapshots=True,
        )

    async def shares(self) -> list[HostedShare]:
        found = [await self._look(name) for name in await self._ceph.list()]
        return [share for share in found if share is not None]

    async def find(self, share_id: str) -> HostedShare | None:
        info = await self._ceph.info(share_id)
        if info is None:
            return None
        return HostedShare(
            share_id=share_id,
            pool=self._pool.name,
            protocol=self.protocol,
            size_gb=_size_gb(info),
            used_bytes=info.bytes_used,
            exports=_exports(info),
            rules=[kept.rule for kept in await self._rules(share_id) or []],
            snapshots=await self._ceph.snapshots(share_id) or [],
        )

    async def create(
        self, share_id: str, size_gb: int, source: ShareSnapshotName | None, operation_key: str
    ) -> list[ExportLocation]:
        del operation_key
        if source is not None:
            raise no_copies(source)
        if (known := await self.find(share_id)) is not None:
            return check_same(known, size_gb)
        check_room(await self.stats(), self._pool, size_gb)
        await self._ceph.make_group()
        await self._ceph.create(share_id, size_gb * GIB, self.options.mode)
        self._sizes[share_id] = size_gb
        if (made := await self._ceph.info(share_id)) is None:
            raise Unavailable(f"Share {share_id} was made, and Ceph has it not. Ask again.")
        return _exports(made)

    async def delete(self, share_id: str) -> None:
        if (snapshots := await self._ceph.snapshots(share_id)) is not None:
            refuse_with_snapshots(share_id, snapshots)
            kept = {one.rule.to: one for one in await self._rules(share_id) or []}
            # The keys of clients outlive a subvolume that is removed under them. A deletion that
            # was cut short may have taken more from one of a rule that is let in no more.
            for client in sorted({*await self._ceph.authorized(share_id), *kept}):
                project_id = kept[client].project_id if client in kept else ""
                await self._let_go(share_id, client, project_id)
            await self._ceph.remove(share_id)
        self._sizes.pop(share_id, None)

    async def resize(self, share_id: str, size_gb: int, operation_key: str) -> None:
        del operation_key
        known = await self._ceph.info(share_id)
        has_gb = _size_gb(known) if known else require(None, share_id).size_gb
        if size_gb > has_gb:
            check_room(await self.stats(), self._pool, size_gb - has_gb)
        if not await self._ceph.resize(share_id, size_gb * GIB):
            raise refuse_smaller(share_id, size_gb)
        self._sizes[share_id] = size_gb

    async def grant(self, share_id: str, grant: Grant) -> str | None:
        rule, known = grant.rule, await self._rules(share_id)
        if known is None:
            return require(None, share_id).share_id
        if rule.to == self.options.client:
            raise Invalid(f"The cephx id {rule.to} is the storage's own. Nobody was let in.")
        check_client_is_free((one.rule for one in known), rule)
        before = next((one for one in known if one.rule.rule_id == rule.rule_id), None)
        if before is not None and before.rule.to != rule.to:
            await self._let_go(share_id, before.rule.to, before.project_id)
        key = f"{_RULE}{rule.rule_id}"
        if before != grant:
            await self._ceph.note(share_id, key, f"{rule.level} {rule.to} {grant.project_id}")
        words = share_id, rule.to, _LEVELS[rule.level], grant.project_id
        async with self._clients.take(rule.to):
            access_key = await self._ceph.authorize(*words)
        if access_key is None:
            await self._ceph.strike(share_id, key)
            raise used_elsewhere(rule.to)
        if rule.level == "ro":
            # A mount keeps the rights that it began with.
            await self._ceph.evict(share_id, rule.to)
        return access_key

    async def revoke(self, share_id: str, rule_id: str) -> None:
        for kept in await self._rules(share_id) or []:
            if kept.rule.rule_id == rule_id:
                await self._let_go(share_id, kept.rule.to, kept.project_id)
                await self._ceph.strike(share_id, f"{_RULE}{rule_id}")

    async def take_snapshot(self, share_id: str, snapshot_id: str) -> None:
        if not await self._ceph.take_snapshot(share_id, snapshot_id):
            require(None, share_id)

    async def delete_snapshot(self, share_id: str, snapshot_id: str) -> None:
        await self._ceph.remove_snapshot(share_id, snapshot_id)

    async def leftovers(self) -> list[str]:
        """Return the clients that are let in and that no rule names."""
        found: list[str] = []
        for share_id in await self._ceph.list():
            try:
                named = {kept.rule.to for kept in await self._rules(share_id) or []}
            except DamagedNote:
                # Whom its rules name is not known.
                continue
            strangers = set(await self._ceph.authorized(share_id)) - named
            found += [f"client.{one} of share {share_id}" for one in sorted(strangers)]
        return found

    async def _look(self, share_id: str) -> HostedShare | None:
        """Return a share for a list; one with a damaged note says so, and hides no other."""
        try:
            return await self.find(share_id)
        except DamagedNote as error:
            if (info := await self._ceph.info(share_id)) is None:
                return None
            return HostedShare(
                share_id=share_id,
                pool=self._pool.name,
                protocol=self.protocol,
                size_gb=_size_gb(info),
                exports=_exports(info),
                problem=error.public,
            )

    async def _let_go(self, share_id: str, client: str, project_id: str) -> None:
        """Let a client into a share no more, and into its project's others as before.

        With a share Ceph takes the right to ask its monitors from an id, which the id's other
        shares need as well; granting one of those once more gives it back.
        """
        async with self._clients.take(client):
            await self._ceph.deauthorize(share_id, client)
            if not project_id:
                return
            places = await self._ceph.places(client)
            # This pool's come first: who has the others may be at work on them.
            for place in sorted(places, key=lambda one: one.group != self.options.group):
                if await self._ceph.authorize_again(place, client, project_id):
                    return

    async def _rules(self, share_id: str) -> list[Grant] | None:
        """Return the rules of a share by id, None without a share. Raises DamagedNote."""
        if (notes := await self._ceph.notes(share_id)) is None:
            return None
        kept = {key.removeprefix(_RULE): v for key, v in notes.items() if key.startswith(_RULE)}
        return [_read_rule(share_id, rule_id, kept[rule_id]) for rule_id in sorted(kept)]

    async def _refresh(self) -> None:
        """Ask for the numbers, unless they were told lately; our own changes count at once."""
        if time.monotonic() < self._fresh_until:
            return
        self._space = await self._ceph.space()
        names = await self._ceph.list()
        sizes = {name: self._sizes[name] for name in names if name in self._sizes}
        for name in names:
            if name not in sizes and (info := await self._ceph.info(name)) is not None:
                sizes[name] = _size_gb(info)
        self._sizes = sizes
        self._fresh_until = time.monotonic() + AGENT_ARRAY_FRESH_S


def _read_rule(share_id: str, rule_id: str, note: str) -> Grant:
    words = note.split(" ")
    if len(words) != _WORDS or words[0] not in _LEVELS:
        raise DamagedNote(
            f"Whom the rule {rule_id} of share {share_id} lets in cannot be read: what is noted of "
            f"it beside the subvolume ({_RULE}{rule_id}) is damaged. Nothing was changed; put the "
            "note right, or remove it (ceph fs subvolume metadata), and ask again.",
            private=note,
        )
    level, to, project_id = words
    kept: AccessLevel = "rw" if level == "rw" else "ro"
    rule = GrantedRule(rule_id=rule_id, type="cephx", to=to, level=kept)
    return Grant(rule=rule, project_id=project_id)


def _size_gb(info: Subvolume) -> int:
    return info.bytes_quota // GIB if isinstance(info.bytes_quota, int) else 0


def _exports(info: Subvolume) -> list[ExportLocation]:
    return [ExportLocation(f"{','.join(info.mon_addrs)}:{info.path}")]
