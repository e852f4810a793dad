"""An image on the network is a disk like any other, but for what only files can do."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.agent.hypervisor import DiskPlan, Hypervisor
from mooring.agent.qemu_img import GIB
from mooring.agent.settings import HypervisorKind
from mooring.agent.sources import Address, NetworkSource
from mooring.agent.waiting import until_told
from mooring.agent_api.overlays import MergeRequest
from mooring.agent_api.servers import PowerRequest, ServerSpec
from mooring.errors import Invalid
from tests.agent.hosts import new_id, open_host, operation

pytestmark = pytest.mark.anyio


async def test_a_guest_has_an_image_of_the_network_and_only_files_do_what_files_can(
    kind: HypervisorKind, inner_dirs: dict[str, Path], tmp_path: Path
) -> None:
    server_id = new_id()
    async with served(tmp_path, kind) as source, open_host(inner_dirs[kind], kind) as (host, run):
        hypervisor = run.agent.hypervisor
        root = replace(await host.make_disk(), boot_index=0)
        spec = ServerSpec(name="x", vcpus=1, memory_mib=64, disks=[root])
        await host.client.put_server(server_id, spec, operation=operation())
        plan = DiskPlan(volume_id=new_id(), attachment_id=new_id(), source=source, size_bytes=GIB)
        given = await hypervisor.plug(server_id, plan)
        assert (given.device, given.path, given.format) == ("/dev/vdb", "", "raw")
        assert (given.live, given.persistent) == (True, True)
        assert await hypervisor.plug(server_id, plan) == given
        for power in (PowerRequest(state="on"), PowerRequest(state="off")):
            await host.client.set_power(server_id, power, operation=operation())
            await refuses_what_files_do(hypervisor, server_id, plan.volume_id)
        guest = await hypervisor.guest(server_id)
        assert guest is not None
        assert replace(given, live=False) in guest.disks
        # The size of the other volume is told all the same.
        seen = (await host.client.inventory()).disks
        assert [one.volume_id for one in seen] == [root.volume_id]
        await hypervisor.unplug(server_id, plan.volume_id, plan.attachment_id)
        locked = replace(plan, source=replace(source, user="cinder", secret_id=new_id()))
        with pytest.raises(Invalid, match="hosts keep no keys"):
            await hypervisor.plug(server_id, locked)
        with pytest.raises(Invalid, match="hosts keep no keys"):
            await hypervisor.redefine_disks(server_id, (locked,))
        guest = await hypervisor.guest(server_id)
        assert guest is not None
        assert [one.volume_id for one in guest.disks] == [root.volume_id]
        await host.remove(server_id)


async def refuses_what_files_do(hypervisor: Hypervisor, server_id: str, volume_id: str) -> None:
    for refused in (
        hypervisor.resize_disk(server_id, volume_id, 2 * GIB),
        hypervisor.disk_size(server_id, volume_id),
        hypervisor.snapshot_disk(server_id, volume_id, "overlay"),
        hypervisor.merge_disk(server_id, volume_id, MergeRequest(), "op"),
    ):
        with pytest.raises(Invalid, match="is no file of this host"):
            await refused


@asynccontextmanager
async def served(directory: Path, kind: HypervisorKind) -> AsyncGenerator[NetworkSource]:
    """Serve an empty image of 1 GiB to real guests; simulated ones open nothing."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    source = NetworkSource(protocol="nbd", name="v", hosts=(Address("127.0.0.1", port),))
    if kind == "simulated":
        yield source
        return
    program = shutil.which("qemu-nbd")
    assert program is not None, "qemu-nbd comes with qemu-img"
    image = directory / "image"
    with image.open("wb") as file:
        file.truncate(GIB)
    words = ["--format=raw", "--export-name=v", "--bind=127.0.0.1", f"--port={port}"]
    server = await asyncio.create_subprocess_exec(
        program, *words, "--persistent", "--shared=4", str(image)
    )
    try:
        assert await until_told(lambda: answers(port), 30)
        yield source
    finally:
        server.terminate()
        await server.wait()


async def answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True
