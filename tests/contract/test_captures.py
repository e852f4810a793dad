"""Captures of root disks: the same on both hypervisors."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal, cast

import pytest

from mooring import qcow2
from mooring.agent.qemu_img import GIB
from mooring.agent.settings import HypervisorKind
from mooring.agent_api.captures import Capture
from mooring.agent_api.images import ImageSpec
from mooring.agent_api.servers import PowerRequest, RootDisk, ServerSpec
from mooring.errors import NotFound, Unavailable
from tests.agent.hosts import TestHost, new_id, open_host, operation, stream

pytestmark = pytest.mark.anyio
STATES = ["running", "off", "pause", "suspend"]


async def read(host: TestHost, server_id: str, capture: Capture) -> bytes:
    return b"".join([piece async for piece in host.client.read_capture(server_id, capture)])


@pytest.mark.parametrize("state", STATES)
async def test_the_disk_of_a_guest_is_captured_whatever_the_guest_does(
    host: TestHost, state: str
) -> None:
    server_id, image_id = new_id(), new_id()
    await host.boot(server_id)
    if state != "running":
        request = PowerRequest(state=state)  # pyright: ignore[reportArgumentType] (one of its words)
        await host.client.set_power(server_id, request, operation=operation())
    before = await host.client.show_server(server_id)
    assert await host.client.show_capture(server_id, image_id) is None
    made = await host.client.put_capture(server_id, image_id, operation=operation())
    assert await host.client.put_capture(server_id, image_id, operation=operation()) == made
    assert await host.client.show_capture(server_id, image_id) == made
    assert await host.client.show_server(server_id) == before
    data = await read(host, server_id, made)
    assert len(data) == made.size_bytes
    assert hashlib.sha256(data).hexdigest() == made.sha256
    assert qcow2.read_alone(data[: qcow2.HEADER_BYTES]) == GIB
    for _ in range(2):
        await host.client.delete_capture(server_id, image_id, operation=operation())
    assert await host.client.show_capture(server_id, image_id) is None


async def test_a_guest_boots_from_what_was_captured_of_another_that_runs(host: TestHost) -> None:
    """A real one reads what the first one had written to its disk before the capture."""
    first, second, image_id = new_id(), new_id(), new_id()
    await host.boot(first)
    if host.real:
        await host.hears(first, f"boot marker written {first}")
    made = await host.client.put_capture(first, image_id, operation=operation())
    data = await read(host, first, made)
    spec = ImageSpec(disk_format="qcow2", size_bytes=len(data))
    await host.client.put_image(image_id, spec, stream(data), operation=operation())
    await host.client.delete_capture(first, image_id, operation=operation())
    await host.client.put_server(
        second,
        ServerSpec(
            name="second",
            vcpus=1,
            memory_mib=128,
            root=RootDisk(image_id=image_id, size_gib=1),
            network="none",
        ),
        operation=operation(),
    )
    await host.hears(second, "mooring-guest: up")
    if host.real:
        await host.hears(second, f"boot marker read {first}")


async def test_the_next_capture_takes_the_place_of_one_that_nobody_removed(host: TestHost) -> None:
    server_id, first, second = new_id(), new_id(), new_id()
    await host.boot(server_id)
    await host.client.put_capture(server_id, first, operation=operation())
    await host.client.put_capture(server_id, second, operation=operation())
    assert await host.client.show_capture(server_id, first) is None
    assert await host.client.show_capture(server_id, second) is not None


@pytest.mark.hosts
@pytest.mark.parametrize("kind", ["libvirt"], indirect=True)
async def test_a_copy_that_nobody_waits_for_keeps_no_guest_from_being_suspended(
    kind: HypervisorKind, inner_dirs: dict[str, Path], tmp_path: Path
) -> None:
    """As an agent leaves one that died in the middle of a capture."""
    async with open_host(inner_dirs[kind], kind) as (host, running):
        server_id, hypervisor = new_id(), cast("Any", running.agent.hypervisor)
        await host.boot(server_id)
        await begin_copy(hypervisor, server_id, tmp_path / "left.qcow2")
        asked: list[tuple[Literal["suspend", "resume"], str]]
        asked = [("suspend", "suspended"), ("resume", "running")]
        for word, wanted in asked:
            request = PowerRequest(state=word)
            guest = await host.client.set_power(server_id, request, operation=operation())
            assert guest.state == wanted
        await host.client.put_capture(server_id, new_id(), operation=operation())
        await host.remove(server_id)


async def begin_copy(hypervisor: Any, server_id: str, written: Path) -> None:
    from mooring.agent.libvirt import captures

    def passing(_: str) -> None:
        return

    def begin(domain: Any) -> None:
        vars(captures)["_copy"](domain, written, passing)

    await hypervisor._make_target(written, GIB, "a capture")  # noqa: SLF001 (no verb leaves one behind)
    await hypervisor._with(server_id, begin)  # noqa: SLF001 (no verb begins one and goes)


async def test_what_is_not_there_is_not_captured(host: TestHost) -> None:
    with pytest.raises(NotFound):
        await host.client.put_capture(new_id(), new_id(), operation=operation())
    nothing = Capture(image_id=new_id(), size_bytes=1, sha256="0")
    with pytest.raises(NotFound):
        await read(host, new_id(), nothing)


async def test_damaged_data_do_not_come_to_their_end(host: TestHost) -> None:
    server_id, image_id = new_id(), new_id()
    await host.boot(server_id)
    made = await host.client.put_capture(server_id, image_id, operation=operation())
    other = Capture(image_id=image_id, size_bytes=made.size_bytes, sha256="0" * 64)
    got: list[int] = []

    async def take() -> None:
        got.extend([len(piece) async for piece in host.client.read_capture(server_id, other)])

    with pytest.raises(Unavailable, match="damaged"):
        await take()
    assert sum(got) < made.size_bytes


async def test_a_capture_goes_with_its_server(host: TestHost) -> None:
    server_id, image_id = new_id(), new_id()
    await host.boot(server_id)
    await host.client.put_capture(server_id, image_id, operation=operation())
    await host.remove(server_id)
    assert await host.client.show_capture(server_id, image_id) is None
    assert (await host.client.inventory()).leftovers == []
