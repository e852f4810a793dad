"""What a lost, late or repeated call does to a host: the same as one that came once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from mooring.agent import serving
from mooring.agent.app import RunningAgent, open_agent
from mooring.agent.drivers.simulated import SimulatedDriver
from mooring.agent.qemu_img import GIB
from mooring.agent.settings import AgentSettings
from mooring.agent.simulated import SimulatedHypervisor
from mooring.agent.waiting import until
from mooring.agent_api.client import Agents
from mooring.agent_api.servers import RootDisk, ServerSpec
from mooring.agent_api.transport import Forward, InProcess, Request, Response
from mooring.agent_api.volumes import VolumeSpec
from mooring.errors import Bug, Conflict, Invalid, NotFound, Unavailable
from mooring.fence.journal import Journal
from mooring.fence.operation import Operation
from tests.agent.hosts import IMAGE_ID, TestHost, new_id, open_host, operation, spec_of, stream

pytestmark = pytest.mark.anyio
VOLUME = VolumeSpec(pool="local", size_gib=1)
SERVER = ServerSpec(name="x", vcpus=1, memory_mib=64, root=RootDisk(image_id=IMAGE_ID))


class World:
    """A simulated host, its knobs, and a network that does as it is told."""

    def __init__(self, running: RunningAgent) -> None:
        hypervisor = running.agent.hypervisor
        assert isinstance(hypervisor, SimulatedHypervisor)
        driver = running.agent.driver("local")
        assert isinstance(driver, SimulatedDriver)
        self.driver, self.journal = driver, running.agent.journal
        self.app, self.hypervisor, self.agents = running.app, hypervisor, Agents()
        self.client = self.agents.in_process("host-1", running.app)
        self.host = TestHost(self.client, real=False)


@asynccontextmanager
async def open_world(state_dir: Path) -> AsyncGenerator[World]:
    settings = AgentSettings(name="host-1", state_dir=state_dir, hypervisor="simulated")
    async with open_agent(settings) as running:
        yield World(running)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as found:
        yield found


async def test_the_same_operation_acts_once_however_often_it_comes(world: World) -> None:
    server_id, named = new_id(), operation()
    await world.host.push_image()

    async def deliver_twice(request: Request, forward: Forward) -> Response:
        await forward(request)
        return await forward(request)

    world.agents.deliver = deliver_twice
    first = await world.client.put_server(server_id, SERVER, operation=named)
    assert await world.client.put_server(server_id, SERVER, operation=named) == first
    assert world.hypervisor.knobs.passed["define"] == 1


async def test_a_lost_answer_is_given_again(world: World) -> None:
    volume_id, named = new_id(), operation()

    async def lose_the_answer(request: Request, forward: Forward) -> Response:
        await forward(request)
        raise Unavailable("The answer was lost.")

    keep = world.agents.deliver
    world.agents.deliver = lose_the_answer
    with pytest.raises(Unavailable):
        await world.client.put_volume(volume_id, VOLUME, operation=named)
    world.agents.deliver = keep
    made = await world.client.put_volume(volume_id, VOLUME, operation=named)
    assert made.volume_id == volume_id


async def test_a_call_that_comes_after_its_own_undo_does_nothing(world: World) -> None:
    volume_id, named = new_id(), operation()
    await world.client.delete_volume(volume_id, operation=named)
    with pytest.raises(Conflict, match="has been undone") as caught:
        await world.client.put_volume(volume_id, VOLUME, operation=named)
    assert caught.value.detail["status"] == 410
    assert await world.client.show_volume(volume_id) is None


async def test_a_call_of_an_older_lock_or_owner_does_nothing(world: World) -> None:
    volume_id = new_id()
    await world.client.put_volume(volume_id, VOLUME, operation=Operation("b", "make", 3, 9))
    for late in (Operation("a", "drop", 1, 8), Operation("b", "drop", 2, 9)):
        with pytest.raises(Conflict, match="came too late") as caught:
            await world.client.delete_volume(volume_id, operation=late)
        assert caught.value.detail["status"] == 412
    assert await world.client.show_volume(volume_id) is not None


async def test_what_a_detach_disconnected_is_not_connected_again_by_a_late_call(
    world: World,
) -> None:
    server_id, disk, moved = new_id(), await world.host.make_disk(), operation("connect_there")
    connect = partial(
        world.client.connect,
        disk.attachment_id,
        disk.volume_id,
        disk.connection,
        server_id=server_id,
        operation=moved,
    )
    await connect()
    await world.host.boot(server_id, [disk])
    await world.client.unplug_disk(
        server_id, disk.volume_id, disk.attachment_id, operation=operation("take")
    )
    with pytest.raises(Conflict, match="came too late") as caught:
        await connect()
    assert caught.value.detail["status"] == 412
    assert (await world.client.inventory()).connections == []


async def test_a_delete_ends_the_put_that_runs(world: World) -> None:
    server_id = new_id()
    await world.host.push_image()
    world.hypervisor.knobs.hold("make_root")
    making = asyncio.create_task(world.client.put_server(server_id, SERVER, operation=operation()))
    assert await until(lambda: "make_root" in world.hypervisor.knobs.passed, 5)
    await world.client.delete_server(server_id, operation=operation())
    with pytest.raises(Conflict) as caught:
        await making
    assert caught.value.detail["status"] == 410
    assert await world.client.show_server(server_id) is None


async def test_a_claim_waits_for_what_is_at_work_on_the_volume(world: World) -> None:
    volume_id, driver = new_id(), world.driver
    await world.client.put_volume(volume_id, VOLUME, operation=operation())
    driver.knobs.hold("delete")
    removing = asyncio.create_task(world.client.delete_volume(volume_id, operation=operation()))
    assert await until(lambda: "delete" in driver.knobs.passed, 5)
    noted = world.journal.commits
    claiming = asyncio.create_task(world.client.claim_volume(volume_id, operation=operation()))
    assert await until(lambda: world.journal.commits > noted, 5)
    await world.client.host()
    assert not claiming.done()
    driver.knobs.release("delete")
    await asyncio.gather(removing, claiming)
    assert await world.client.show_volume(volume_id) is None


async def test_an_agent_of_the_release_before_claims_nothing(world: World) -> None:
    volume_id = new_id()

    async def know_no_post(request: Request, forward: Forward) -> Response:
        return await forward(replace(request, target="/volumes"))

    await world.client.put_volume(volume_id, VOLUME, operation=operation())
    world.agents.deliver = know_no_post
    await world.client.claim_volume(volume_id, operation=operation())


async def test_long_work_is_followed_to_its_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "AGENT_PATIENCE_S", 0.01)
    seen: list[str] = []

    async def listen(request: Request, forward: Forward) -> Response:
        answer = await forward(request)
        seen.append(f"{request.method} {request.target.partition('?')[0]} {answer.status}")
        if answer.status == 202:
            world.hypervisor.knobs.release("power_on")
        return answer

    await world.host.push_image()
    world.agents.deliver = listen
    world.hypervisor.knobs.hold("power_on")
    server_id = new_id()
    guest = await world.client.put_server(server_id, SERVER, operation=operation())
    assert guest.state == "running"
    assert seen[0] == f"PUT /servers/{server_id} 202"
    assert seen[-1].startswith("GET /operations/")
    assert seen[-1].endswith(" 200")


async def test_a_deadline_abandons_the_call_and_the_work_goes_on(world: World) -> None:
    server_id, named = new_id(), operation()
    await world.host.push_image()
    world.hypervisor.knobs.hold("power_on")
    with pytest.raises(Unavailable, match="Ask again"):
        await world.client.put_server(server_id, SERVER, operation=named, timeout_s=0.05)
    world.hypervisor.knobs.release("power_on")
    guest = await world.client.put_server(server_id, SERVER, operation=named)
    assert guest.state == "running"
    assert world.hypervisor.knobs.passed["power_on"] == 1


async def test_giving_up_a_growth_ends_the_one_that_runs(world: World) -> None:
    server_id, disk, named = new_id(), await world.host.make_disk(), operation()
    await world.host.boot(server_id, [disk])
    world.hypervisor.knobs.hold("resize_disk")
    growing = asyncio.create_task(
        world.client.resize_disk(server_id, disk.volume_id, 2 * GIB, operation=named)
    )
    assert await until(lambda: "resize_disk" in world.hypervisor.knobs.passed, 5)
    await world.client.forget_resize(server_id, disk.volume_id, operation=named)
    with pytest.raises(Conflict, match="has been undone"):
        await growing
    found = await world.client.show_volume(disk.volume_id)
    assert found is not None
    assert found.virtual_bytes == GIB


async def test_an_agent_set_up_anew_refuses_until_it_was_looked_at(tmp_path: Path) -> None:
    async with open_world(tmp_path / "old") as world:
        known = (await world.client.host()).incarnation
    async with open_world(tmp_path / "new") as world:
        world.client.incarnation = known
        with pytest.raises(Unavailable, match="set up anew") as caught:
            await world.client.put_volume(new_id(), VOLUME, operation=operation())
        host = await world.client.host()
        assert caught.value.detail["incarnation"] == host.incarnation
        await world.client.put_volume(new_id(), VOLUME, operation=operation())


async def test_one_directory_has_one_agent(tmp_path: Path) -> None:
    async with open_world(tmp_path):
        with pytest.raises(Conflict, match="Another agent runs"):
            async with open_world(tmp_path):
                pass


async def test_after_a_reboot_answers_are_not_believed(tmp_path: Path) -> None:
    server_id, named = new_id(), operation()
    async with open_world(tmp_path) as world:
        await world.host.push_image()
        await world.client.put_server(server_id, SERVER, operation=named)
        world.hypervisor.crash(server_id)
        guest = await world.client.put_server(server_id, SERVER, operation=named)
        assert guest.state == "running", "the same operation gets its answer again"
    (tmp_path / "boot_id").write_text("another boot", "ascii")
    async with open_world(tmp_path) as world:
        await world.client.put_server(server_id, SERVER, operation=named)
        guest = await world.client.show_server(server_id)
        assert guest is not None
        assert guest.state == "running"


async def test_what_is_malformed_is_refused(world: World) -> None:
    wire = InProcess(world.app)
    cases = {
        ("PUT", "/servers/..%2f..", msgspec.json.encode(SERVER)): 404,
        ("DELETE", "/servers/..%2f..", b""): 404,
        ("GET", "/servers/..%2f..", b""): 404,
        ("POST", "/servers", b""): 405,
        ("GET", "/nothing", b""): 404,
        ("PUT", f"/servers/{new_id()}", b"not json"): 400,
        ("PUT", f"/servers/{new_id()}", b'{"name": "x"}'): 400,
        ("PUT", f"/images/{new_id()}?disk_format=raw", b""): 400,
        ("GET", "/events?after=soon", b""): 400,
        ("GET", "/events?after=inf", b""): 400,
        ("GET", "/events?wait=nan", b""): 400,
        ("GET", "/operations/none", b""): 503,
    }
    for (method, target, body), status in cases.items():
        answer = await wire.send(Request(method, target, {}, body), 5)
        assert answer.status == status, (method, target, answer.body)
    headers = {"mooring-operation": "nonsense"}
    answer = await wire.send(Request("DELETE", f"/volumes/{new_id()}", headers, b""), 5)
    assert answer.status == 400


async def test_a_failing_source_of_an_image_is_the_callers_own_error(world: World) -> None:
    async def break_off() -> AsyncIterator[bytes]:
        yield b"beginning"
        raise NotFound("The image is gone.")

    with pytest.raises(NotFound, match="The image is gone"):
        await world.client.put_image(
            IMAGE_ID, spec_of(b"x" * 100, "raw"), break_off(), operation=operation()
        )
    assert await world.client.show_image(IMAGE_ID) is None
    await world.client.put_image(
        IMAGE_ID, spec_of(b"x" * 100, "raw"), stream(b"x" * 100), operation=operation()
    )


async def test_unknown_hosts_are_unavailable() -> None:
    with pytest.raises(Unavailable, match="No agent is known for host nowhere"):
        Agents()["nowhere"]


async def test_an_answer_that_makes_no_sense_is_our_bug(world: World) -> None:
    async def garble(request: Request, forward: Forward) -> Response:
        del request, forward
        return Response(200, b"[]")

    world.agents.deliver = garble
    with pytest.raises(Bug, match="makes no sense"):
        await world.client.host()


async def test_a_volume_too_small_for_its_image_is_refused(tmp_path: Path) -> None:
    async with open_host(tmp_path) as (host, _):
        await host.push_image()
        spec = VolumeSpec(pool="local", size_gib=0)
        with pytest.raises(Invalid, match="at least 1 GiB"):
            await host.client.put_volume(new_id(), spec, operation=operation())


async def test_an_agent_killed_right_after_a_reboot_does_not_believe_answers_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server_id, named = new_id(), operation()
    async with open_world(tmp_path) as world:
        await world.host.push_image()
        await world.client.put_server(server_id, SERVER, operation=named)
        world.hypervisor.crash(server_id)
    (tmp_path / "boot_id").write_text("another boot", "ascii")

    async def die(_: Journal) -> None:
        raise Unavailable("The agent's journal has no room left on its disk.")

    with monkeypatch.context() as killed:
        killed.setattr(Journal, "forget_answers", die)
        with pytest.raises(Unavailable):
            async with open_world(tmp_path):
                pass
    async with open_world(tmp_path) as world:
        await world.client.put_server(server_id, SERVER, operation=named)
        guest = await world.client.show_server(server_id)
        assert guest is not None
        assert guest.state == "running"
