"""Root disks that stand alone, made of an image that goes: the same on both hypervisors."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from msgspec import Struct

from mooring.agent.qemu_img import GIB
from mooring.agent.settings import HypervisorKind
from mooring.agent_api.images import ImageSpec
from mooring.agent_api.servers import PowerRequest, RootDisk, ServerSpec
from mooring.errors import Invalid
from tests.agent.hosts import IMAGE_ID, TestHost, new_id, operation, stream
from tests.contract.conftest import open_either

pytestmark = pytest.mark.anyio
OFF = PowerRequest(state="off")


class Alone(Struct):
    """Two hosts; the first has an image of another guest's disk."""

    here: TestHost
    there: TestHost
    image_id: str
    server_id: str

    def spec(self, size_gib: int, *, copied: bool = False) -> ServerSpec:
        root = RootDisk(
            image_id=IMAGE_ID if copied else self.image_id,
            size_gib=size_gib,
            copied=copied,
            stands_alone=not copied,
        )
        return ServerSpec(name="guest", vcpus=1, memory_mib=128, root=root, network="none")

    async def boot(self, size_gib: int = 2) -> None:
        """Start the guest from a disk of its own, and take the image away."""
        client = self.here.client
        guest = await client.put_server(self.server_id, self.spec(size_gib), operation=operation())
        assert guest.root_stands_alone
        await self.here.hears(self.server_id, "mooring-guest: up")
        await self.here.hears(self.server_id, f"disk vda {size_gib * GIB} bytes")
        await client.delete_image(self.image_id, operation=operation())


async def root_of(host: TestHost, server_id: str) -> tuple[str, int]:
    """Return what the root disk of a guest lies over, and how large it is."""
    root = (await host.client.show_portrait(server_id)).root
    assert root is not None
    return root.image_id, root.size_bytes


@pytest.fixture
async def alone(kind: HypervisorKind, tmp_path: Path) -> AsyncGenerator[Alone]:
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(open_either(kind, tmp_path / "a"))
        there = await stack.enter_async_context(open_either(kind, tmp_path / "b"))
        first, image_id, server_id = new_id(), new_id(), new_id()
        await here.boot(first)
        assert (await root_of(here, first))[0] == IMAGE_ID
        await here.client.set_power(first, OFF, operation=operation())
        made = await here.client.put_capture(first, image_id, operation=operation())
        data = b"".join([piece async for piece in here.client.read_capture(first, made)])
        spec = ImageSpec(disk_format="qcow2", size_bytes=len(data))
        await here.client.put_image(image_id, spec, stream(data), operation=operation())
        await here.remove(first)
        yield Alone(here, there, image_id, server_id)
        for host in (here, there):
            await host.remove(server_id)


async def test_a_guest_runs_from_a_copy_of_an_image_that_is_gone(alone: Alone) -> None:
    await alone.boot()
    assert await root_of(alone.here, alone.server_id) == ("", 2 * GIB)
    client, reboot = alone.here.client, PowerRequest(state="reboot")
    await client.set_power(alone.server_id, reboot, operation=operation())
    await alone.here.hears(alone.server_id, "mooring-guest: up", times=2)
    image_id = new_id()
    made = await client.put_capture(alone.server_id, image_id, operation=operation())
    assert made.is_whole
    await alone.here.remove(alone.server_id)
    assert (await client.inventory()).leftovers == []


async def test_such_a_disk_is_copied_to_another_host_and_stands_alone_there(alone: Alone) -> None:
    await alone.boot()
    here, there, server_id = alone.here.client, alone.there.client, alone.server_id
    await here.set_power(server_id, OFF, operation=operation())
    await here.keep_disks(server_id, operation=operation())
    await here.restore_kept(server_id, operation=operation())
    await here.forget_kept(server_id, operation=operation())
    offer = await here.put_offer(server_id, operation=operation())
    brought = await there.put_copy(server_id, offer, operation=operation())
    assert brought.is_whole
    await alone.here.remove(server_id)
    await there.put_server(server_id, alone.spec(3, copied=True), operation=operation())
    await alone.there.hears(server_id, "mooring-guest: up")
    assert await root_of(alone.there, server_id) == ("", 3 * GIB)
    assert (await here.inventory()).leftovers == []
    await alone.there.remove(server_id)
    assert (await there.inventory()).leftovers == []


async def test_a_disk_smaller_than_what_the_image_has_is_refused(alone: Alone) -> None:
    await alone.boot()
    client, image_id, second = alone.here.client, new_id(), new_id()
    made = await client.put_capture(alone.server_id, image_id, operation=operation())
    data = b"".join([piece async for piece in client.read_capture(alone.server_id, made)])
    spec = ImageSpec(disk_format="qcow2", size_bytes=len(data))
    await client.put_image(image_id, spec, stream(data), operation=operation())
    alone.image_id = image_id
    with pytest.raises(Invalid, match="too small"):
        await client.put_server(second, alone.spec(1), operation=operation())
    assert (await client.inventory()).leftovers == []
    await client.delete_image(image_id, operation=operation())
