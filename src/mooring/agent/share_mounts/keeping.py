"""The shares of this host's guests: mounted for their servers, and kept as long as one needs them.

A share is unmounted when no server needs it and no domain, running or defined, has its path: an
unmount succeeds under a running guest, so whether a mount is used only the domains tell
(facts/distributed_storage.md 4).
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import structlog

from mooring.agent.files import DamagedRecord
from mooring.agent.hypervisor import Hypervisor
from mooring.agent.mounts import mount_point
from mooring.agent.share_mounts.base import ShareMounter, Wanted
from mooring.agent.share_mounts.exports import check_client, read_export
from mooring.agent.share_mounts.users import ShareUse, ShareUsers
from mooring.agent.turns import Turns
from mooring.agent_api.guest_shares import (
    GUEST_SHARES,
    GuestShare,
    MountedShare,
    MountRequest,
    ShareClient,
    UnreadMount,
)
from mooring.agent_api.shares import Protocol
from mooring.errors import Conflict, Invalid, MooringError, Unavailable
from mooring.fence.threads import run_to_end

log = structlog.get_logger()
_TAG = re.compile(r"[A-Za-z0-9-]{1,36}")
_OFF = frozenset({"stopped", "crashed", "migrated"})


class GuestShares:
    """The shares that one host has mounted for its guests."""

    def __init__(
        self,
        host: str,
        address: str,
        hypervisor: Hypervisor,
        mounters: Mapping[Protocol, ShareMounter],
        users: ShareUsers,
    ) -> None:
        self._host, self._address, self._hypervisor = host, address, hypervisor
        self.mounters, self._users = mounters, users
        self._turns = Turns()

    @property
    def client(self) -> ShareClient:
        """This host as shares know it."""
        bases: dict[Protocol, str] = {
            protocol: str(one.base) for protocol, one in self.mounters.items()
        }
        return ShareClient(address=self._address, mount_bases=bases)

    async def setup(self) -> None:
        """Know again whose the mounts are, and unmount what belongs to nobody."""
        await run_to_end(self._users.prepare)
        for mounter in self.mounters.values():
            await mounter.prepare()
        for guest in await self._hypervisor.guests():
            for share in guest.shares:
                await self._know_again(guest.server_id, share)
        for mounter in self.mounters.values():
            for path in await self._unused(mounter):
                try:
                    await mounter.unmount(path)
                except Unavailable as error:
                    log.warning("a share stays mounted", path=str(path), reason=str(error))

    async def mount(
        self, server_id: str, share_id: str, request: MountRequest, operation_key: str
    ) -> Path:
        """Mount a share for a server, or find it mounted, and return where."""
        export = read_export(request.protocol, request.export)
        check_client(request)
        mounter = self.mounters[request.protocol]
        path = mount_point(mounter.base, request.export)
        client = request.access_to or self._address
        use = ShareUse(
            server_id=server_id,
            share_id=share_id,
            protocol=request.protocol,
            path=str(path),
            client=request.access_to,
        )
        wanted = Wanted(export=export, path=path, client=client, key=request.access_key)
        async with self._turns.take(_server(server_id), _mount(path)):
            known = await run_to_end(lambda: self._users.find(server_id, share_id))
            await self._check_use(mounter, use, known)
            await run_to_end(lambda: self._users.note(use))
            try:
                await self._mount(mounter, wanted, operation_key)
            except (MooringError, OSError):
                if known is None:
                    await self._give_up(use)
                raise
        return path

    async def unmount(self, server_id: str, share_id: str) -> None:
        """Note that a server needs a share no more; unmount it unless somebody else does."""
        use = await run_to_end(lambda: self._users.find(server_id, share_id))
        names = [] if use is None else [_mount(Path(use.path))]
        async with self._turns.take(_server(server_id), *names):
            await self._hypervisor.drop_share(server_id, share_id)
            if use is not None:
                await self._release(use)

    @asynccontextmanager
    async def starting(self, server_id: str) -> AsyncGenerator[None]:
        """Let a server's guest start in the body, with all shares of its definition mounted.

        Raises Conflict when one is not, Unavailable when one does not answer.
        """
        async with self._turns.take(_server(server_id)):
            guest = await self._hypervisor.guest(server_id)
            if guest is not None and guest.state in _OFF:
                await self.check_mounted(server_id, guest.shares)
            yield

    async def check_mounted(self, server_id: str, shares: Sequence[GuestShare]) -> None:
        """Raise Conflict when a share is not mounted for a server, Unavailable when it is silent.

        An empty directory would do for the guest, which would write to the host's own disk then.
        """
        for share in shares:
            use = await run_to_end(lambda one=share: self._users.find(server_id, one.share_id))
            path = Path(share.path)
            mounter = self._mounter(path)
            if use is None or use.path != share.path or path not in await mounter.mounted():
                raise Conflict(
                    f"Share {share.share_id} is not mounted at {share.path} on host {self._host} "
                    f"for server {server_id}, so its guest was not started. Have it mounted, and "
                    "start the server again."
                )
            await mounter.check(path)

    def check_shares(self, shares: Sequence[GuestShare]) -> None:
        """Raise Invalid for what no guest can have: by its tag, its number or its place."""
        tags = [share.tag for share in shares]
        bad = [tag for tag in tags if not _TAG.fullmatch(tag)]
        if bad or len(set(tags)) < len(tags) or len(tags) > GUEST_SHARES:
            raise Invalid(
                f"A guest has {GUEST_SHARES} shares at most, each with a tag of its own: 1 "
                "to 36 letters, digits and dashes. Nothing was changed."
            )
        for share in shares:
            self._mounter(Path(share.path))

    async def mounted(self) -> tuple[list[MountedShare], list[UnreadMount]]:
        """Return whom shares are mounted for here, and of whom that cannot be read."""
        there = [path for one in self.mounters.values() for path in await one.mounted()]
        uses, unread = await run_to_end(self._users.look)
        mounted = [
            MountedShare(
                server_id=use.server_id,
                share_id=use.share_id,
                path=use.path,
                mounted=Path(use.path) in there,
            )
            for use in uses
        ]
        return mounted, unread

    async def leftovers(self) -> list[str]:
        """Return the mounts that belong to nobody."""
        found = [path for one in self.mounters.values() for path in await self._unused(one)]
        return sorted(map(str, found))

    def _mounter(self, path: Path) -> ShareMounter:
        """Return what mounts at a path. Raises Invalid where nothing does."""
        for mounter in self.mounters.values():
            if path.parent == mounter.base and path.name not in {"", "..", "."}:
                return mounter
        raise Invalid(
            f"Host {self._host} mounts no shares at {str(path)[:200]!a}: it does below "
            f"{', '.join(str(one.base) for one in self.mounters.values())}. Nothing was changed; "
            "give hosts between which servers with shares move the same mount point bases."
        )

    async def _check_use(
        self, mounter: ShareMounter, use: ShareUse, known: ShareUse | None
    ) -> None:
        """Raise Conflict when a share is mounted in another way already."""
        if known is not None and known.path != use.path:
            raise Conflict(
                f"Share {use.share_id} is noted for server {use.server_id} at {known.path}, from "
                "another export. Unmount that first; nothing was changed."
            )
        if Path(use.path) not in await mounter.mounted():
            return
        for other in await run_to_end(lambda: self._users.of(Path(use.path))):
            if other.client not in {"", use.client}:
                raise Conflict(
                    f"Share {use.share_id} is mounted here as the cephx id {other.client}, for "
                    f"server {other.server_id}. Use that id, or another host; nothing was changed."
                )

    async def _mount(self, mounter: ShareMounter, wanted: Wanted, operation_key: str) -> None:
        """See that a share is mounted and answers; one that is lost is mounted anew."""
        path = wanted.path
        if path in await mounter.mounted():
            try:
                await mounter.check(path)
            except Unavailable:
                if await self._has_guest(path, running=True):
                    raise
                await mounter.unmount(path)
        await mounter.mount(wanted, operation_key)
        await mounter.check(path)

    async def _release(self, use: ShareUse) -> None:
        path = Path(use.path)
        uses, unread = await run_to_end(self._users.look)
        users = [one for one in uses if one.path == use.path]
        is_last = users == [use] and not unread
        if is_last and not await self._has_guest(path):
            await self.mounters[use.protocol].unmount(path)
        await run_to_end(lambda: self._users.strike(use))

    async def _give_up(self, use: ShareUse) -> None:
        """Take back a mount that failed. What stays belongs to the server, until it is undone."""
        try:
            await self._release(use)
        except Unavailable as error:
            log.warning("a mount that failed stays", path=use.path, reason=str(error))

    async def _has_guest(self, path: Path, *, running: bool = False) -> bool:
        """Return whether any guest of this host has a path, or whether a running one does."""
        return any(
            share.path == str(path) and not (running and guest.state in _OFF)
            for guest in await self._hypervisor.guests()
            for share in guest.shares
        )

    async def _know_again(self, server_id: str, share: GuestShare) -> None:
        """Note a use that a guest's definition tells of and no file does, or a damaged one.

        One that the disk does not give stays as it is: it says more, and may be read again.
        """
        try:
            known = await run_to_end(lambda: self._users.find(server_id, share.share_id))
        except DamagedRecord as error:
            log.warning("a share's use is noted anew", server_id=server_id, reason=str(error))
            known = None
        except OSError as error:
            log.warning("a share's use cannot be read", server_id=server_id, reason=str(error))
            return
        if known is not None:
            return
        base = Path(share.path).parent
        for protocol, mounter in self.mounters.items():
            if mounter.base == base:
                use = ShareUse(
                    server_id=server_id,
                    share_id=share.share_id,
                    protocol=protocol,
                    path=share.path,
                )
                await run_to_end(lambda: self._users.note(use))  # noqa: B023 (awaited here)

    async def _unused(self, mounter: ShareMounter) -> list[Path]:
        uses, unread = await run_to_end(self._users.look)
        if unread:
            return []
        used = {use.path for use in uses}
        return sorted(path for path in await mounter.mounted() if str(path) not in used)


def _server(server_id: str) -> str:
    return f"server {server_id}"


def _mount(path: Path) -> str:
    return f"mount {path}"
