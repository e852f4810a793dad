"""The simulated hypervisor: guests without a machine, for those who test clients and for our tests.

Its guests boot at once, and their console says what the real test guest says.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mooring.agent import simulated_overlays as overlays
from mooring.agent import simulated_pool
from mooring.agent.device_names import assign_devices, choose_device, name_root, name_swap
from mooring.agent.disk_checks import check_attachment, check_disks, check_hot, check_places
from mooring.agent.guest_mirrors import is_copied
from mooring.agent.hypervisor import (
    DiskPlan,
    GuestPlan,
    News,
    Tell,
    grown_size,
    tail,
)
from mooring.agent.image_locks import open_elsewhere
from mooring.agent.rescues import RescuePlan
from mooring.agent.settings import AgentSettings
from mooring.agent.simulated_guest_shares import plug_shares
from mooring.agent.simulated_moves import check_here
from mooring.agent.simulated_rescues import (
    buses_of,
    drop_rescue,
    first_of,
    make_rescue,
    name_rescue,
    own_bus,
    own_root,
    say_boot,
)
from mooring.agent.simulated_serial import SimulatedSerial
from mooring.agent.simulated_standstill import read_image
from mooring.agent.sources import (
    FileSource,
    NetworkSource,
    Source,
    file_of,
    shown,
)
from mooring.agent.world import (
    RUNNING,
    SimulatedDisk,
    SimulatedGuest,
    Written,
    say,
    say_disk,
    show,
    show_disk,
)
from mooring.agent_api.disks import DiskSize, GuestDisk
from mooring.agent_api.images import CachedImage
from mooring.agent_api.overlays import MergeRequest
from mooring.agent_api.servers import Guest, RescueDisk
from mooring.errors import Invalid, NoCapacity, NotFound, Unavailable


class SimulatedHypervisor(SimulatedSerial):
    """Keeps its world in `<state_dir>/simulated.sqlite`. Implements `Hypervisor`.

    `knobs` points: define, power_on, power_off, remove, plug, resize_disk. `emulators` can be made
    to hang.
    """

    def __init__(self, settings: AgentSettings) -> None:
        super().__init__(settings, _tell_nobody)

    async def admit(self, source: Source) -> None:
        del source

    async def start(self, tell: Tell) -> None:
        self._watch(tell)

    async def close(self) -> None:
        self._tell = _tell_nobody
        self._hang_up()
        self._world.close()

    async def guests(self) -> list[Guest]:
        return [show(guest) for guest in self._world.guests()]

    async def guest(self, server_id: str) -> Guest | None:
        return show(found) if (found := self._world.find(server_id)) else None

    async def define(self, plan: GuestPlan) -> None:
        await self.knobs.at("define")
        known = self._world.find(plan.server_id)
        guest = SimulatedGuest(
            server_id=plan.server_id,
            name=plan.name,
            vcpus=plan.vcpus,
            memory_mib=plan.memory_mib,
            image_id=plan.root.image_id if plan.root else "",
            root_bytes=plan.root.size_bytes if plan.root else 0,
            network=plan.network,
            metadata=plan.metadata,
            mem_page_size=plan.mem_page_size,
            shares=list(plan.shares),
            has_drive=plan.has_drive,
            swap_bytes=plan.swap.size_bytes if plan.swap else 0,
            root_bus=plan.root.bus if plan.root else "virtio",
            bus=plan.bus,
            drive_bus=plan.drive_bus,
        )
        if known is not None:
            guest.state, guest.console, guest.disks = known.state, known.console, known.disks
            guest.live_shares, guest.memory = known.live_shares, known.memory
            guest.said = known.said
        self._set_disks(guest, plan.disks)
        self._world.save(guest)

    async def redefine_disks(self, server_id: str, disks: tuple[DiskPlan, ...]) -> None:
        await self.knobs.at("define")
        guest = self._get(server_id)
        self._set_disks(guest, disks)
        self._world.save(guest)

    async def redefine_start(
        self, server_id: str, disks: tuple[DiskPlan, ...], rescue: RescuePlan | None
    ) -> None:
        await self.knobs.at("define")
        guest = self._get(server_id)
        # Named first: where its disk is the first one, the others come after it.
        guest.rescue = name_rescue(guest, rescue, disks)
        self._set_disks(guest, disks)
        self._world.save(guest)
        if rescue is None:
            drop_rescue(self.guest_directory / server_id)

    async def make_rescue(
        self,
        server_id: str,
        wanted: RescueDisk,
        image: CachedImage,
        source: Path,
        operation_key: str,
    ) -> RescuePlan:
        await self.knobs.at("make_rescue")
        return make_rescue(self.guest_directory / server_id, wanted, image)

    async def power_on(self, server_id: str) -> None:
        await self.knobs.at("power_on")
        await self.emulators.ask(server_id, lambda: self._power_on(server_id))

    async def power_off(self, server_id: str, graceful_s: float) -> None:
        await self.knobs.at("power_off")
        presses = graceful_s > 0
        if presses:
            try:
                await self.emulators.ask(server_id, lambda: self._press_power_button(server_id))
            except Unavailable:
                presses = False
        how = "shut down" if presses else "switched off"
        await self.emulators.end(server_id, lambda: self._switch_off(server_id, how))

    async def remove(self, server_id: str, *, keeps_disks: bool = False) -> None:
        await self.knobs.at("remove")
        forget = self._forget if keeps_disks else self._remove
        drop_rescue(self.guest_directory / server_id)
        await self.emulators.end(server_id, lambda: forget(server_id))

    async def until_quiet(self, server_id: str) -> None:
        await self.emulators.calls.until_quiet(server_id)

    async def plug(self, server_id: str, disk: DiskPlan) -> GuestDisk:
        await self.knobs.at("plug")
        return await self.emulators.ask(server_id, lambda: self._plug(server_id, disk))

    def _plug(self, server_id: str, disk: DiskPlan) -> GuestDisk:
        guest = self._get(server_id)
        check_disks(disk)
        is_running = guest.state in RUNNING
        known = next((one for one in guest.disks if one.volume_id == disk.volume_id), None)
        if known is None:
            if is_running:
                check_hot(server_id, disk.volume_id, disk.bus)
            check_places(server_id, [disk.bus, *buses_of(guest, guest.disks)])
            device = choose_device(disk.device, _taken(guest), disk.bus)
            if device is None:
                raise NoCapacity(f"Server {server_id} has no free device for another disk.")
            known = self._make_disk(disk, device)
            guest.disks.append(known)
        check_attachment(server_id, disk.volume_id, known.attachment_id, disk.attachment_id)
        self._note_opener(disk.source)
        known.persistent = True
        if is_running and not known.live:
            # One that it has, or that its definition has while it is off, stays the file it is.
            (known.path, known.format), known.network = shown(disk.source), _network(disk.source)
            self._check_lock(guest, known)
            known.live, known.size_bytes = True, read_image(known)
            say_disk(guest, known.device, known.size_bytes, known.volume_id)
        self._world.save(guest)
        return show_disk(known)

    async def resize_disk(self, server_id: str, volume_id: str, size_bytes: int) -> DiskSize:
        await self.knobs.at("resize_disk")
        return await self.emulators.ask(
            server_id, lambda: self._resize(server_id, volume_id, size_bytes)
        )

    def _resize(self, server_id: str, volume_id: str, size_bytes: int) -> DiskSize:
        guest = self._get(server_id)
        disk = overlays.find_seen(guest, volume_id)
        if disk.live and disk.read_only:
            raise Invalid(f"The guest may only read volume {volume_id}, so it cannot make it grow.")
        if disk.mirror is not None:
            raise is_copied(server_id, volume_id)
        self._read_files(disk)
        path, image_bytes = file_of(disk.source, "growing").path, read_image(disk)
        wanted = grown_size(size_bytes, image_bytes)
        if wanted > image_bytes:
            if not disk.live and self._is_open_elsewhere(guest, disk):
                raise open_elsewhere(server_id, volume_id)
            simulated_pool.grow(path, wanted)
        if disk.live and disk.size_bytes != wanted:
            say_disk(guest, disk.device, wanted, disk.serial or volume_id)
        disk.size_bytes = wanted
        self._world.save(guest)
        return DiskSize(guest_bytes=disk.size_bytes, image_bytes=read_image(disk))

    async def snapshot_disk(self, server_id: str, volume_id: str, new_file: str) -> GuestDisk:
        await self.knobs.at("snapshot_disk")
        return await self._change_disk(
            server_id, volume_id, lambda disk: overlays.put_on(disk, new_file)
        )

    async def take_back_snapshot(
        self, server_id: str, volume_id: str, new_file: str, operation_key: str
    ) -> GuestDisk | None:
        await self.knobs.at("take_back_snapshot")
        try:
            return await self._change_disk(
                server_id, volume_id, lambda disk: overlays.take_off(disk, new_file)
            )
        except NotFound:
            return None

    async def merge_disk(
        self, server_id: str, volume_id: str, merge: MergeRequest, operation_key: str
    ) -> GuestDisk:
        await self.knobs.at("merge_disk")
        return await self._change_disk(
            server_id, volume_id, lambda disk: overlays.merge(disk, merge)
        )

    async def stop_merge(self, server_id: str, volume_id: str) -> None:
        await self.knobs.at("stop_merge")
        await self.until_quiet(server_id)

    async def disk_size(self, server_id: str, volume_id: str) -> DiskSize:
        return await self.emulators.ask(server_id, lambda: self._measure(server_id, volume_id))

    def _measure(self, server_id: str, volume_id: str) -> DiskSize:
        disk = overlays.find_seen(self._get(server_id), volume_id)
        file_of(disk.source, "reading its size")
        self._read_files(disk)
        image_bytes = read_image(disk)
        return DiskSize(
            guest_bytes=disk.size_bytes if disk.live else image_bytes, image_bytes=image_bytes
        )

    async def console(self, server_id: str, lines: int | None) -> str:
        return tail(self._get(server_id).console, lines)

    def ledger(self) -> list[Written]:
        """Return which guest could write to which volume, and when."""
        return self._world.ledger()

    def shut_down_inside(self, server_id: str) -> None:
        """Let the guest switch itself off."""
        self._halt(self._get(server_id), "stopped", "shut down")

    def crash(self, server_id: str) -> None:
        """Let the guest end as a QEMU that died does."""
        self._halt(self._get(server_id), "crashed", "crashed")

    async def _change_disk(
        self, server_id: str, volume_id: str, change: Callable[[SimulatedDisk], None]
    ) -> GuestDisk:
        def work() -> GuestDisk:
            guest = self._get(server_id)
            disk = overlays.find(guest, volume_id)
            file_of(disk.source, "a snapshot or a merge")
            self._read_files(disk)
            change(disk)
            self._world.save(guest)
            return show_disk(disk)

        return await self.emulators.ask(server_id, work)

    def _power_on(self, server_id: str) -> None:
        guest = self._get(server_id)
        if guest.state == "running":
            return
        check_here(guest)
        if guest.state == "paused":
            guest.state = "running"
        else:
            self._boot(guest)
        self._world.save(guest)
        self._tell(News(kind="guest_started", server_id=server_id))

    def _press_power_button(self, server_id: str) -> None:
        guest = self._get(server_id)
        if guest.state not in {"stopped", "crashed", "suspended"}:
            say(guest, "power button")
            self._world.save(guest)

    def _switch_off(self, server_id: str, how: str) -> None:
        guest = self._get(server_id)
        if guest.state == "suspended":
            guest.state, guest.memory = "stopped", None
            self._world.save(guest)
        elif guest.state not in {"stopped", "crashed", "migrated"}:
            self._halt(guest, "stopped", how)

    def _boot(self, guest: SimulatedGuest) -> None:
        guest.disks = [disk for disk in guest.disks if disk.persistent]
        for disk in guest.disks:
            self._check_lock(guest, disk)
        guest.state, guest.memory = "running", None
        say(guest, "up")
        say(guest, f"machine {guest.server_id}")
        self._insert_drive(guest)
        say_boot(guest)
        if guest.image_id:
            say_disk(guest, own_root(guest), guest.root_bytes, "")
        self._find_swap(guest)
        for disk in guest.disks:
            disk.live, disk.size_bytes, disk.serial = True, read_image(disk), ""
            say_disk(guest, disk.device, disk.size_bytes, disk.volume_id)
        plug_shares(guest)

    def _set_disks(self, guest: SimulatedGuest, plans: tuple[DiskPlan, ...]) -> None:
        """Make these the definition's disks; what the running guest has besides goes at its end."""
        before = {disk.volume_id: disk for disk in guest.disks}
        live = {disk.volume_id: disk for disk in guest.disks if disk.live}
        check_places(guest.server_id, buses_of(guest, plans))
        own, first = own_bus(guest), first_of(guest)
        root = name_root(plans, own, first=first)
        swap = name_swap(plans, guest.bus, root=root, first=first)
        guest.swap_device = swap if guest.swap_bytes else ""
        devices = assign_devices(plans, own=own, first=first, swap=guest.swap_device)
        disks = [self._make_disk(plan, device) for plan, device in zip(plans, devices, strict=True)]
        for disk in disks:
            if (running := live.pop(disk.volume_id, None)) is not None:
                disk.live, disk.device = True, running.device
                disk.size_bytes, disk.serial = running.size_bytes, running.serial
                disk.mirror = running.mirror
            known = before.get(disk.volume_id)
            if known is not None and known.source == disk.source:
                disk.below = known.below
        for left in live.values():
            left.persistent = False
        guest.disks = [*disks, *live.values()]

    def _make_disk(self, plan: DiskPlan, device: str) -> SimulatedDisk:
        check_disks(plan)
        self._note_opener(plan.source)
        path, disk_format = shown(plan.source)
        return SimulatedDisk(
            volume_id=plan.volume_id,
            attachment_id=plan.attachment_id,
            device=device,
            path=path,
            format=disk_format,
            network=_network(plan.source),
            size_bytes=plan.size_bytes,
            boot_index=plan.boot_index,
            read_only=plan.read_only,
            shareable=plan.shareable,
            bus=plan.bus,
        )

    def _note_opener(self, source: Source) -> None:
        """Tell the pool who may have a volume open, before anybody has."""
        if isinstance(source, FileSource) and simulated_pool.is_path(source.path):
            simulated_pool.note_opener(source.path, self._world.path)


def _tell_nobody(news: News) -> None:
    del news


def _network(source: Source) -> NetworkSource | None:
    return source if isinstance(source, NetworkSource) else None


def _taken(guest: SimulatedGuest) -> set[str]:
    taken = {guest.swap_device, *(disk.device for disk in guest.disks)}
    if guest.rescue is not None:
        taken.add(guest.rescue.device)
    return taken | {own_root(guest)} if guest.image_id else taken
