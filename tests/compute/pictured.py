"""A cloud of compute with a real image service, and servers whose root disk becomes an image."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from mooring.compute.app import SERVICE as COMPUTE
from mooring.image.app import SERVICE as IMAGES
from mooring.placement.app import SERVICE as PLACEMENT
from mooring.volume.app import SERVICE as VOLUME
from tests.compute.cloud import IMAGE, ComputeCloud
from tests.compute.local_disks import FORMER, HOSTS, Local, make_local
from tests.compute.moving import Moving
from tests.compute.verifying import force_down, show
from tests.kept import Keeper, named_after

_IMAGES = "/image/v2/images"
LATEST, NAME = "2.100", "s-shelved"


class PicturedCloud(ComputeCloud):
    """The same, with images of its own instead of the shelf."""

    def __init__(self, directory: Path, **how: Any) -> None:
        services = (IMAGES, PLACEMENT, VOLUME, COMPUTE)
        super().__init__(directory, services=services, **how)
        del self.stand_ins["image"]

    async def images(self) -> dict[str, dict[str, Any]]:
        """Return the images that there are, by name."""
        answer = await self.ask("GET", _IMAGES, user="admin")
        return {image["name"]: image for image in answer.body["images"]}

    async def change_image(self, method: str, image_id: str, body: Any = None, **how: Any) -> int:
        """Ask something of an image; return the status code."""
        return (await self.ask(method, f"{_IMAGES}/{image_id}", body, **how)).status

    async def cached(self) -> set[str]:
        """Return the images that some host has in its cache."""
        found = [await self.known_agents[host].inventory() for host in self.hosts]
        return {image.image_id for inventory in found for image in inventory.images}

    def wait_for_s(self, seconds: float) -> None:
        """Let servers that are put away wait at their hosts."""
        settings = replace(self.compute.settings, shelved_offload_time=seconds)
        self.compute.settings = settings


class Kept(Local):
    """Such a server, in a cloud with images."""

    cloud: PicturedCloud

    async def act(self, action: str, value: Any = None, **how: Any) -> int:
        how = {"version": LATEST, **how}
        status = await self.cloud.act(self.moving.server_id, action, value, **how)
        await self.cloud.settle()
        return status

    async def is_away(self) -> None:
        """See that the server is at no host, that an image has its disk, and its volume waits."""
        moving, shown = self.moving, await show(self.moving)
        assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("SHELVED_OFFLOADED", None)
        assert shown["OS-EXT-STS:task_state"] is None
        assert shown["image"]["id"] == IMAGE
        image = (await self.cloud.images())[NAME]
        assert (image["status"], image["visibility"]) == ("active", "private")
        assert [await self.cloud.volume_status(one) for one in moving.volumes] == ["reserved"]
        assert await moving.states() == ["absent", "absent"]
        assert await moving.claims() == [set(), set()]
        for host in HOSTS:
            assert not self.disk(host).parent.exists()
        await self.doctor_finds_nothing()

    async def is_shelved(self) -> None:
        """See that the server waits at its host, with its disk, its volume and an image."""
        moving, shown = self.moving, await show(self.moving)
        assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("SHELVED", moving.source)
        assert (shown["OS-EXT-STS:task_state"], shown["OS-EXT-STS:power_state"]) == (None, 4)
        assert (await self.cloud.images())[NAME]["status"] == "active"
        assert await moving.states() == ["stopped", "absent"]
        assert self.beside(moving.source) == ["root"]
        assert await moving.claims() == [{moving.server_id}, set()]
        await self.doctor_finds_nothing()

    async def is_back(self, host: str = "") -> None:
        """See that the server runs somewhere, with its disk and volume, and no image is left."""
        moving, shown = self.moving, await show(self.moving)
        assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
        assert shown["image"]["id"] == IMAGE
        moving.source = shown["OS-EXT-SRV-ATTR:host"]
        moving.destination = next(name for name in HOSTS if name != moving.source)
        assert not host or moving.source == host
        await moving.stays_whole()
        assert list(await self.cloud.images()) == ["tiny"]
        assert await self.cloud.cached() <= {IMAGE}
        await self.doctor_finds_nothing()

    async def is_as_it_was(self, status: str = "SHUTOFF") -> None:
        """See that the server is at its host, with its disk, and that there is no image."""
        moving, shown = self.moving, await show(self.moving)
        assert (shown["status"], shown["OS-EXT-STS:task_state"]) == (status, None)
        assert list(await self.cloud.images()) == ["tiny"]
        assert self.beside(moving.source) == ["root"]
        assert self.reads(moving.source) == ([FORMER], 1)
        await self.doctor_finds_nothing()


async def make_kept(cloud: PicturedCloud) -> Kept:
    """Make a server with its root disk on its host, which says something, and a volume."""
    new = {"id": IMAGE, "name": "tiny", "disk_format": "raw", "container_format": "bare"}
    made = await cloud.ask("POST", _IMAGES, {**new, "hw_disk_bus": "virtio"})
    assert made.status == 201, made.text
    sent = await cloud.ask("PUT", f"{_IMAGES}/{IMAGE}/file", b"\0" * 65536)
    assert sent.status == 204, sent.text
    return Kept((await make_local(cloud)).moving)


@asynccontextmanager
async def kept_server(
    keeper: Keeper, *, then: Callable[[Kept], Awaitable[object]] | None = None, **how: Any
) -> AsyncGenerator[Kept]:
    """Give such a server, begun where the first one was made; `then` has befallen it."""

    async def make(cloud: PicturedCloud) -> tuple[str, list[str], str, str]:
        kept = await make_kept(cloud)
        if then is not None:
            await then(kept)
        made = kept.moving
        return made.server_id, made.volumes, made.source, made.destination

    what = f"a server whose disk becomes an image {named_after(then)}"
    async with keeper.open(PicturedCloud, make, what, hosts=HOSTS, **how) as (cloud, made):
        yield Kept(Moving(cloud, *made))


async def dies(kept: Kept) -> None:
    """Let the server's host die, which may be the storage of its volume."""
    cloud, moving = kept.cloud, kept.moving
    assert (await cloud.detach(moving.server_id, moving.volumes.pop())).status == 202
    await cloud.settle()
    await cloud.end_host(moving.source)
    await force_down(cloud, moving.source, down=True)
