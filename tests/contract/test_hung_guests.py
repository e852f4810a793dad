"""A guest whose emulator hangs: it is ended in bounded time, and holds up nobody else.

The real one is stopped by SIGSTOP. What waits for it is given next to no time once it hangs, and
as much as it likes before and after: no answer here depends on how fast the machine is.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, Awaitable
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from mooring.agent.app import RunningAgent
from mooring.agent.guest_calls import GuestCalls
from mooring.agent.qemu_img import GIB
from mooring.agent.settings import HypervisorKind
from mooring.agent.waiting import until_told
from mooring.agent_api.disks import DiskSize, DiskSpec
from mooring.agent_api.servers import PowerRequest, ServerSpec
from mooring.errors import Unavailable
from tests.agent.hosts import TestHost, new_id, open_host, operation
from tests.agent.processes import emulators

pytestmark = pytest.mark.anyio
SOON_S, LATE_S = 0.2, 90.0


class Hanging:
    """A host, and how to let one of its guests hang."""

    def __init__(self, host: TestHost, running: RunningAgent) -> None:
        self.host, self.client = host, host.client
        self._hypervisor: Any = running.agent.hypervisor
        asked = "_asked" if host.real else "emulators"
        found: Any = vars(running.agent.hypervisor)[asked]
        self._calls: GuestCalls = found if host.real else found.calls
        self._calls.answer_s = LATE_S

    def hang(self, server_id: str) -> None:
        self._tell(server_id, signal.SIGSTOP)
        self._calls.answer_s = SOON_S

    def go_on(self, server_id: str) -> None:
        self._calls.answer_s = LATE_S
        self._tell(server_id, signal.SIGCONT)

    def be_patient(self) -> None:
        self._calls.answer_s = LATE_S

    def _tell(self, server_id: str, word: signal.Signals) -> None:
        if self.host.real:
            (process_id,) = emulators(server_id)
            os.kill(process_id, word)
        elif word == signal.SIGSTOP:
            self._hypervisor.emulators.hang(server_id)
        else:
            self._hypervisor.emulators.go_on(server_id)


@pytest.fixture
async def hanging(kind: HypervisorKind, inner_dirs: dict[str, Path]) -> AsyncGenerator[Hanging]:
    async with open_host(inner_dirs[kind], kind) as (host, running):
        made = Hanging(host, running)
        yield made
        made.be_patient()
        for guest in await host.client.list_servers():
            await host.remove(guest.server_id)


async def refused(asking: Awaitable[object]) -> None:
    with pytest.raises(Unavailable, match="does not answer"):
        await asking


async def file_bytes(host: TestHost, volume_id: str) -> int:
    found = await host.client.show_volume(volume_id)
    assert found is not None
    return found.virtual_bytes


async def test_a_guest_that_hangs_is_switched_off_and_others_are_served(hanging: Hanging) -> None:
    client, host, server_id, other = hanging.client, hanging.host, new_id(), new_id()
    disk, second = await host.make_disk(), await host.make_disk()
    volume_id, growing = disk.volume_id, operation()
    await start_on(host, server_id, disk)
    await start_on(host, other, await host.make_disk())
    hanging.hang(server_id)
    await refused(client.resize_disk(server_id, volume_id, 2 * GIB, operation=growing))
    # What was begun is still at work, so its undo is not answered either.
    await refused(client.forget_resize(server_id, volume_id, operation=growing))
    await refused(client.plug_disk(server_id, second, operation=operation()))
    await refused(client.unplug_disk(server_id, volume_id, operation=operation()))
    await refused(client.show_disk_size(server_id, volume_id))
    overlay = f"volume-{volume_id}.{new_id()}"
    await refused(
        client.snapshot_disk(server_id, volume_id, new_id(), overlay, operation=operation())
    )
    found = await client.show_server(server_id)
    assert found is not None
    assert found.state == "running"
    hanging.be_patient()
    assert (await host.plug(other, second)).live
    off = PowerRequest(state="off", mode="hard")
    assert (await client.set_power(server_id, off, operation=operation())).state == "stopped"
    await client.forget_resize(server_id, volume_id, operation=growing)
    assert await file_bytes(host, volume_id) == GIB
    on = PowerRequest(state="on")
    assert (await client.set_power(server_id, on, operation=operation())).state == "running"
    grown = await client.resize_disk(server_id, volume_id, 2 * GIB, operation=operation())
    assert grown == both(2)


async def test_what_hung_comes_true_when_it_goes_on_and_never_once_it_is_removed(
    hanging: Hanging,
) -> None:
    client, host, server_id, growing = hanging.client, hanging.host, new_id(), operation()
    disk = await host.make_disk()
    volume_id = disk.volume_id
    await start_on(host, server_id, disk)
    hanging.hang(server_id)
    await refused(client.resize_disk(server_id, volume_id, 2 * GIB, operation=growing))
    hanging.go_on(server_id)

    async def has_grown() -> bool:
        try:
            found = await client.resize_disk(server_id, volume_id, 2 * GIB, operation=growing)
        except Unavailable:
            # It answers first what it was asked before.
            return False
        return found == both(2)

    assert await until_told(has_grown, LATE_S)
    await client.forget_resize(server_id, volume_id, operation=growing)
    hanging.hang(server_id)
    await refused(client.resize_disk(server_id, volume_id, 3 * GIB, operation=operation()))
    hanging.be_patient()
    await host.remove(server_id)
    assert await client.show_server(server_id) is None
    assert await file_bytes(host, volume_id) == 2 * GIB


@pytest.mark.parametrize(("word", "state"), [("pause", "paused"), ("suspend", "suspended")])
async def test_a_guest_that_hangs_is_not_waited_for_to_stand_still(
    hanging: Hanging, word: Literal["pause", "suspend"], state: str
) -> None:
    client, server_id, disk = hanging.client, new_id(), await hanging.host.make_disk()
    await start_on(hanging.host, server_id, disk)
    hanging.hang(server_id)
    still = PowerRequest(state=word)
    await refused(client.set_power(server_id, still, operation=operation()))
    hanging.be_patient()
    reboot = PowerRequest(state="reboot", disks=[replace(disk, boot_index=0)])
    assert (await client.set_power(server_id, reboot, operation=operation())).state == "running"
    assert (await client.set_power(server_id, still, operation=operation())).state == state


async def start_on(host: TestHost, server_id: str, disk: DiskSpec) -> None:
    """Start a guest on an empty volume: its emulator runs, and nothing boots."""
    spec = ServerSpec(name="x", vcpus=1, memory_mib=64, disks=[replace(disk, boot_index=0)])
    await host.client.put_server(server_id, spec, operation=operation())


def both(size_gib: int) -> DiskSize:
    return DiskSize(guest_bytes=size_gib * GIB, image_bytes=size_gib * GIB)
