"""Hosts to test with: an agent in this process, simulated or real, and what tests do with it."""

from __future__ import annotations

import hashlib
import itertools
import os
import pwd
import shutil
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from msgspec import Struct

from mooring.agent.app import RunningAgent, open_agent
from mooring.agent.settings import AgentSettings, HypervisorKind
from mooring.agent.waiting import until_told
from mooring.agent_api.client import AgentClient, Agents
from mooring.agent_api.disks import DiskSpec, GuestDisk
from mooring.agent_api.guest_shares import GuestShare, MountRequest
from mooring.agent_api.images import CachedImage, ImageSpec
from mooring.agent_api.servers import Guest, RootDisk, ServerSpec
from mooring.agent_api.shares import AccessRule, ShareSpec
from mooring.agent_api.volumes import VolumeSpec
from mooring.fence.operation import Operation

CHECKOUT = Path(__file__).parents[2]
GUEST_IMAGE = CHECKOUT / "build" / "guest" / "guest.qcow2"
IMAGE_ID = "0c0ffee0-0000-4000-8000-000000000001"
BOOT_S = 240.0
_generations = itertools.count(1)


def why_no_real_guests() -> str:
    """Return what keeps this machine from running real guests, "" when nothing does."""
    if find_spec("libvirt") is None:
        return "libvirt's Python binding is not installed"
    if shutil.which("qemu-system-x86_64") is None or shutil.which("qemu-img") is None:
        return "QEMU is not installed"
    if not GUEST_IMAGE.exists():
        return "the test guest is not built: run scripts/build_guest"
    if os.geteuid() == 0:
        try:
            pwd.getpwnam("libvirt-qemu")
        except KeyError:
            return "the user libvirt-qemu is missing"
    return ""


def new_id() -> str:
    """Return an id for a server, volume or attachment."""
    return str(uuid.uuid4())


def operation(step: str = "step", saga: str = "") -> Operation:
    """Return an operation that nobody has used, newer than all before."""
    return Operation(saga or new_id(), step, 1, next(_generations))


async def stream(data: bytes, size: int = 65536) -> AsyncIterator[bytes]:
    """Yield data in pieces."""
    for at in range(0, len(data), size):
        yield data[at : at + size]


def spec_of(data: bytes, disk_format: str) -> ImageSpec:
    """Return what the image service would say of an image."""
    digest = hashlib.sha512(data).hexdigest()
    return ImageSpec(
        disk_format=disk_format,
        size_bytes=len(data),
        os_hash_algo="sha512",
        os_hash_value=digest,
    )


class Share(Struct, frozen=True):
    """A share on a host, which one rule lets somebody in to."""

    share_id: str
    rule_id: str
    pool: str
    export: str


class TestHost:
    """One host, and the steps that many tests take."""

    __test__ = False

    def __init__(self, client: AgentClient, *, real: bool) -> None:
        self.client, self.real = client, real

    async def push_image(self) -> CachedImage:
        """See that the host has an image that boots."""
        data = GUEST_IMAGE.read_bytes() if self.real else b"MOORING" * 1024
        spec = spec_of(data, "qcow2" if self.real else "raw")
        return await self.client.put_image(IMAGE_ID, spec, stream(data), operation=operation())

    async def boot(
        self,
        server_id: str,
        disks: list[DiskSpec] | None = None,
        shares: list[GuestShare] | None = None,
        swap_mib: int = 0,
    ) -> Guest:
        """Make a server from the image, and wait until it is up."""
        await self.push_image()
        root = RootDisk(image_id=IMAGE_ID, size_gib=1)
        spec = ServerSpec(
            name="guest",
            vcpus=1,
            memory_mib=128,
            root=root,
            disks=disks or [],
            shares=shares or [],
            network="none",
            swap_mib=swap_mib,
        )
        guest = await self.client.put_server(server_id, spec, operation=operation())
        await self.hears(server_id, "mooring-guest: up")
        return guest

    async def hears(self, server_id: str, words: str, times: int = 1) -> str:
        """Wait until the console has said so, so often; return all it said."""

        async def heard() -> bool:
            return (await self.client.read_console(server_id)).count(words) >= times

        came = await until_told(heard, BOOT_S)
        said = await self.client.read_console(server_id)
        assert came, f"{words!r} never came in:\n{said}"
        return said

    async def tells(self, server_id: str, kind: str, reason: str) -> None:
        """Wait for news of a server."""

        async def told() -> bool:
            news = await self.client.events(0, 0)
            return any(
                (one.server_id, one.kind, one.reason) == (server_id, kind, reason)
                for one in news.events
            )

        assert await until_told(told, 10), f"nobody told that {server_id} had {kind}"

    async def make_disk(
        self, size_gib: int = 1, image_id: str = "", disk_format: Literal["", "raw", "qcow2"] = ""
    ) -> DiskSpec:
        """Make a volume, empty or from the image, and export it to this very host."""
        client = self.client
        volume_id, attachment_id = new_id(), new_id()
        pool = (await client.host()).pools[0].name
        spec = VolumeSpec(pool=pool, size_gib=size_gib, image_id=image_id, format=disk_format)
        await client.put_volume(volume_id, spec, operation=operation())
        connection = await client.export_volume(
            volume_id, attachment_id, await client.connector(), operation=operation()
        )
        return DiskSpec(volume_id=volume_id, attachment_id=attachment_id, connection=connection)

    async def make_share(self, to: str = "") -> Share:
        """Make a share on this very host, with a rule for it, or for somebody else."""
        host, share_id, rule_id = await self.client.host(), new_id(), new_id()
        pool = host.share_pools[0]
        spec = ShareSpec(pool=pool.name, protocol=pool.protocol, size_gb=1)
        made = await self.client.put_share(share_id, spec, operation=operation())
        rule = AccessRule(pool=pool.name, type="ip", to=to or host.shares.address)
        await self.client.grant_access(share_id, rule_id, rule, operation=operation())
        return Share(share_id, rule_id, pool.name, made.exports[0].path)

    async def mount(self, server_id: str, share: Share, tag: str = "papers") -> GuestShare:
        """Have a share mounted for a server; returns it as its guest is to have it."""
        request = MountRequest(export=share.export, protocol="NFS")
        mounted = await self.client.mount_share(
            server_id, share.share_id, request, operation=operation()
        )
        return GuestShare(share_id=share.share_id, tag=tag, path=mounted.path)

    async def unmount(self, server_id: str, share: Share) -> None:
        """Have a server need a share no more."""
        await self.client.unmount_share(server_id, share.share_id, operation=operation())

    async def plug(self, server_id: str, disk: DiskSpec) -> GuestDisk:
        """Give a server a disk."""
        return await self.client.plug_disk(server_id, disk, operation=operation())

    async def remove(self, server_id: str) -> None:
        """End a server."""
        await self.client.delete_server(server_id, operation=operation())


@asynccontextmanager
async def open_host(
    state_dir: Path, hypervisor: HypervisorKind = "simulated", name: str = "host-1"
) -> AsyncGenerator[tuple[TestHost, RunningAgent]]:
    """Start an agent in this process."""
    settings = AgentSettings(
        name=name, state_dir=state_dir, hypervisor=hypervisor, roles=("compute", "volume", "share")
    )
    async with open_agent(settings) as running:
        agents = Agents()
        client = agents.in_process(name, running.app)
        yield TestHost(client, real=hypervisor == "libvirt"), running
