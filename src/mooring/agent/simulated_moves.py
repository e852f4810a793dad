"""Simulated guests that go from one simulated host of this machine to another.

As QEMU does it: the other host has the guest without running it (`prelaunched`) until all of its
memory is there; then it stands still here, runs there, and is left here as `migrated`. One that is
held still before runs on there, too, or here when it stays.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from mooring.agent import simulated_copy_starts as copy_starts
from mooring.agent import simulated_pool, swap_disks
from mooring.agent.hypervisor import (
    SECTOR_BYTES,
    SHARE_TRAITS,
    TRAITS,
    Facts,
    Landing,
    News,
    Tell,
)
from mooring.agent.move_checks import check_portrait
from mooring.agent.rescues import check_own_disks
from mooring.agent.settings import AgentSettings
from mooring.agent.simulated_drives import SimulatedDrives
from mooring.agent.world import SimulatedDisk, SimulatedGuest, World
from mooring.agent_api.images import CachedImage
from mooring.agent_api.moves import Arrival, LocalRoot, Portrait, Progress
from mooring.errors import Conflict, NotFound, Unavailable

VCPUS = 64
MEMORY_MIB_PER_VCPU = 4096
DISK_GIB_PER_VCPU = 160
_SCHEME = "simulated:"
_ALIVE = frozenset({"running", "paused"})


class SimulatedMoves(SimulatedDrives):
    """A part of `SimulatedHypervisor`.

    `knobs` points: expect, expect_root, expect_swap, send, send_disk, send_memory, send_rest,
    turn_away. A guest that is held still passes send_disk and send_memory, where what it changes
    has to be sent anew; send_rest is the network.
    """

    def __init__(self, settings: AgentSettings, tell: Tell) -> None:
        super().__init__(settings, tell)
        self._sent: dict[str, bool] = {}
        """The guests that are sent, and whether their disks are there by now."""

    async def facts(self) -> Facts:
        vcpus = self._settings.vcpus or VCPUS
        return Facts(
            kind="simulated",
            version=1_000_000,
            accelerator="simulated",
            vcpus=vcpus,
            memory_mib=vcpus * MEMORY_MIB_PER_VCPU,
            disk_gib=vcpus * DISK_GIB_PER_VCPU,
            traits=(TRAITS | SHARE_TRAITS) - self._settings.hidden_traits,
            agent_version=self._settings.version,
        )

    async def portrait(self, server_id: str) -> Portrait:
        guest, facts = self._get_alive(server_id), await self.facts()
        check_own_disks(server_id, guest.rescue.image_id if guest.rescue else "")
        root = None
        if guest.image_id:
            found = self._lay_down(guest).stat()
            root = LocalRoot(
                image_id="" if self._stands_alone(server_id) else guest.image_id,
                size_bytes=found.st_size,
                data_bytes=found.st_blocks * SECTOR_BYTES,
            )
        return Portrait(
            hypervisor=facts.kind,
            accelerator=facts.accelerator,
            version=facts.version,
            root=root,
            swap=self._measure_swap(guest),
            drive=self._read_drive(guest),
        )

    async def expect(self, server_id: str, portrait: Portrait) -> None:
        await self.knobs.at("expect")
        check_portrait(portrait, await self.facts(), self._settings.name)
        guest = self._world.find(server_id)
        if guest is not None and guest.state in _ALIVE:
            raise Conflict(f"Host {self._settings.name} has a guest {server_id} already.")

    async def expect_root(
        self,
        server_id: str,
        image: CachedImage | None,
        source: Path | None,
        root: LocalRoot,
        operation_key: str,
    ) -> None:
        del source, operation_key
        await self.knobs.at("expect_root")
        path = self._root_path(server_id)
        self._check_shut(server_id, "root disk")
        self._mark(server_id, alone=image is None)
        path.write_bytes(b"")
        os.truncate(path, root.size_bytes)

    async def expect_swap(self, server_id: str, size_bytes: int, operation_key: str) -> None:
        await self.knobs.at("expect_swap")
        self._check_shut(server_id, "swap disk")
        swap_disks.make_anew(self.guest_directory / server_id, size_bytes, operation_key)

    async def find_landing(self, server_id: str) -> Landing:
        own = (
            self._root_path(server_id),
            self._drive_path(server_id),
            self._swap_path(server_id),
        )
        root, drive, swap = [str(path.absolute()) if path.exists() else "" for path in own]
        address = f"{_SCHEME}{self._world.path.absolute()}"
        return Landing(address=address, root=root, drive=drive, swap=swap)

    async def send(self, server_id: str, arrival: Arrival) -> None:
        await self.knobs.at("send")
        if self._get(server_id).state == "migrated":
            return
        guest = self._get_alive(server_id)
        for disk in guest.disks:
            # Nobody waits for its end: a saga that copies holds its server.
            disk.mirror = None
        copy_starts.settle(self._world, guest)
        with _open_there(arrival.address) as there:
            there.save(_arriving(guest, arrival))
        self._sent[server_id] = False
        try:
            if guest.image_id or guest.swap_bytes:
                self._mirror(guest, Path(arrival.root))
                self._mirror_swap(guest, Path(arrival.swap))
                await self.knobs.at("send_disk")
            self._sent[server_id] = True
            await self.knobs.at("send_memory")
            await self.knobs.at("send_rest")
            await self.emulators.ask(server_id, lambda: self._hand_over(server_id, arrival))
        finally:
            del self._sent[server_id]
            if (stays := self._world.find(server_id)) is not None:
                let_go_on(self._world, stays)
            with _open_there(arrival.address) as there:
                _forget_unfinished(there, server_id)

    async def progress(self, server_id: str) -> Progress:
        guest = self._get(server_id)
        if server_id not in self._sent:
            return Progress()
        # The disk goes first, and what is under way is half there.
        memory = guest.memory_mib << 20
        disk = guest.swap_bytes + (guest.root_bytes if guest.image_id else 0)
        is_there = self._sent[server_id]
        memory_left, disk_left = memory // 2 if is_there else memory, 0 if is_there else disk // 2
        return Progress(
            memory_total_bytes=memory,
            memory_processed_bytes=memory - memory_left,
            memory_remaining_bytes=memory_left,
            disk_total_bytes=disk,
            disk_processed_bytes=disk - disk_left,
            disk_remaining_bytes=disk_left,
        )

    async def hasten(self, server_id: str) -> None:
        self._get(server_id)
        if server_id not in self._sent:
            raise Conflict(f"The guest of server {server_id} is not on its way to another host.")
        await self.emulators.ask(server_id, lambda: self._hold_still(server_id))
        # A guest that stands still changes no memory any more: what is left is sent.
        for point in ("send_disk", "send_memory"):
            self.knobs.release(point)

    async def stop_sending(self, server_id: str) -> None:
        await self.emulators.calls.until_quiet(server_id)

    async def turn_away(self, server_id: str) -> None:
        await self.knobs.at("turn_away")
        guest = self._world.find(server_id)
        if guest is not None and guest.state in _ALIVE:
            raise Conflict(f"Host {self._settings.name} has the guest {server_id} by now.")
        self._remove(server_id)

    def _hold_still(self, server_id: str) -> None:
        guest = self._get(server_id)
        if guest.state == "running" and server_id in self._sent:
            guest.state, guest.stands_for_move = "paused", True
            self._world.save(guest)

    def _hand_over(self, server_id: str, arrival: Arrival) -> None:
        """Let the guest stand still here, run there, and be gone from here."""
        guest = self._get_alive(server_id)
        state = "running" if guest.stands_for_move else guest.state
        with _open_there(arrival.address) as there:
            arrived = there.find(server_id)
            if arrived is None or arrived.state != "prelaunched":
                raise Conflict(f"Nobody takes the guest of server {server_id} in. It stays.")
            for disk in guest.disks:
                disk.live = False
            guest.state = "paused"
            self._world.save(guest)
            # What it wrote meanwhile is brought, too, before it runs there.
            self._mirror(guest, Path(arrival.root))
            self._mirror_swap(guest, Path(arrival.swap))
            arrived.state = state
            for disk in arrived.disks:
                disk.live = True
                if simulated_pool.is_path(disk.path):
                    simulated_pool.note_opener(disk.path, there.path)
            there.save(arrived)
        guest.state, guest.stands_for_move = "migrated", False
        self._world.save(guest)
        self._tell(News(kind="guest_stopped", server_id=server_id, reason="migrated"))

    def _get(self, server_id: str) -> SimulatedGuest:
        if (guest := self._world.find(server_id)) is None:
            raise NotFound(f"Host {self._settings.name} has no guest {server_id}.")
        return guest

    def _get_alive(self, server_id: str) -> SimulatedGuest:
        guest = self._get(server_id)
        if guest.state not in _ALIVE:
            raise Conflict(
                f"The guest of server {server_id} is {guest.state}; only one that runs moves."
            )
        return guest


def check_here(guest: SimulatedGuest) -> None:
    """Raise Conflict for a guest that another host has: it must not run twice."""
    if guest.state in {"migrated", "prelaunched"}:
        raise Conflict(
            f"The guest of server {guest.server_id} is on another host, or on its way to this one; "
            "it was not started here."
        )


def let_go_on(world: World, guest: SimulatedGuest) -> None:
    """Let a guest go on that stood still to get to another host, and is still here."""
    if guest.stands_for_move:
        guest.state, guest.stands_for_move = "running", False
        world.save(guest)


@contextmanager
def _open_there(address: str) -> Generator[World]:
    """Give the world of another host. Raises Unavailable for one that is not on this machine."""
    file = Path(address.removeprefix(_SCHEME))
    if not address.startswith(_SCHEME) or not file.exists():
        raise Unavailable(
            "The host that the guest is to go to is not one of this machine's simulated hosts.",
            private=address,
        )
    there = World(file)
    try:
        yield there
    finally:
        there.close()


def _arriving(guest: SimulatedGuest, arrival: Arrival) -> SimulatedGuest:
    """Return a guest as the other host has it while its memory comes."""
    disks = [_moved(disk, arrival) for disk in guest.disks]
    # Its console goes on in a file of the other host.
    return SimulatedGuest(
        server_id=guest.server_id,
        name=guest.name,
        vcpus=guest.vcpus,
        memory_mib=guest.memory_mib,
        image_id=guest.image_id,
        root_bytes=guest.root_bytes,
        state="prelaunched",
        network=guest.network,
        metadata=guest.metadata,
        disks=disks,
        has_drive=guest.has_drive,
        swap_bytes=guest.swap_bytes,
        swap_device=guest.swap_device,
        root_bus=guest.root_bus,
        bus=guest.bus,
        drive_bus=guest.drive_bus,
    )


def _moved(disk: SimulatedDisk, arrival: Arrival) -> SimulatedDisk:
    there = next(one for one in arrival.disks if one.volume_id == disk.volume_id)
    path = there.path if disk.network is None else disk.path
    return replace(disk, attachment_id=there.attachment_id, path=path, live=False)


def _forget_unfinished(there: World, server_id: str) -> None:
    guest = there.find(server_id)
    if guest is not None and guest.state == "prelaunched":
        there.remove(server_id)
