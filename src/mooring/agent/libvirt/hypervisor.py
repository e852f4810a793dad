"""Guests of QEMU through libvirt. Implements `Hypervisor`.

Source: facts/compute.md 14.2 and facts/real_hosts.md 3.
"""

from __future__ import annotations

import asyncio
import platform
import re
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import libvirt
import structlog

from mooring.agent import config_drives, swap_disks
from mooring.agent.disk_checks import check_disks
from mooring.agent.guest_files import ROOT_FORMAT
from mooring.agent.hypervisor import (
    GONE,
    DiskPlan,
    GuestPlan,
    News,
    RootPlan,
    Tell,
)
from mooring.agent.hypervisor_memory import Way
from mooring.agent.image_locks import open_elsewhere
from mooring.agent.libvirt import (
    accelerator,
    devices,
    domain_xml,
    memory,
    power,
    share_devices,
    sizes,
    start_disks,
    states,
)
from mooring.agent.libvirt.domain_xml import Machine
from mooring.agent.libvirt.host import find_domain
from mooring.agent.libvirt.overlays import DomainOverlays
from mooring.agent.libvirt.serial_ports import LibvirtSerial
from mooring.agent.limits import (
    AGENT_ACPI_ASK_S,
    AGENT_RESIZE_TRIES,
)
from mooring.agent.qemu_img import InUse
from mooring.agent.rescues import RescuePlan
from mooring.agent.run import Runner, find_program
from mooring.agent.settings import AgentSettings
from mooring.agent_api.disks import DiskSize, GuestDisk
from mooring.agent_api.guest_shares import GuestShare
from mooring.agent_api.images import CachedImage
from mooring.agent_api.overlays import MergeRequest
from mooring.agent_api.servers import Guest, RescueDisk
from mooring.errors import Invalid, NotFound, Unavailable
from mooring.fence.threads import run_to_end

log = structlog.get_logger()
T = TypeVar("T")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class LibvirtHypervisor(LibvirtSerial):
    """The guests of one host: q35 machines with a serial console. None starts by itself."""

    def __init__(self, settings: AgentSettings, runner: Runner, way: Way = "") -> None:
        super().__init__(settings, runner, way)
        self._watches: list[int] = []
        self._overlays = DomainOverlays(self._lock, self._with, self._qemu_img, self._emulator.give)

    async def start(self, tell: Tell) -> None:
        if platform.machine() != "x86_64":
            raise Unavailable(
                f"Guests run on x86-64 hosts only, and this one is {platform.machine()}. Choose "
                "the simulated hypervisor."
            )
        for program in (accelerator.EMULATOR, "qemu-img"):
            find_program(program)
        await self._open()
        await self.settle_standstills()
        await self._listen(tell)

    @property
    def notice(self) -> str:
        """What its operator should know about a host that has started, "" for nothing."""
        return "" if self._accelerator == "kvm" else accelerator.why_emulated()

    async def close(self) -> None:
        self._tell = _tell_nobody
        watches, self._watches = self._watches, []
        handle = self._connection.handle
        # A daemon that is gone watches nothing any more, and would refuse.
        for watch in watches if watches and handle.isAlive() else ():
            await self._call(partial(handle.domainEventDeregisterAny, watch))
        await self._connection.close()

    async def guests(self) -> list[Guest]:
        handle = self._connection.handle

        def read() -> list[Guest]:
            names = [domain.name() for domain in handle.listAllDomains(0)]
            ours = [name for name in names if name.startswith(domain_xml.NAME_PREFIX)]
            found = (
                find_domain(handle, name.removeprefix(domain_xml.NAME_PREFIX)) for name in ours
            )
            shown = (states.show_if_there(domain) for domain in found if domain is not None)
            return [guest for guest in shown if guest is not None]

        return await self._call(read)

    async def leftovers(self) -> list[str]:
        there = {guest.server_id for guest in await self.guests()}
        return await run_to_end(lambda: self._files.leftovers(there))

    async def guest(self, server_id: str) -> Guest | None:
        handle = self._connection.handle

        def read() -> Guest | None:
            domain = find_domain(handle, server_id)
            return None if domain is None else states.show_if_there(domain)

        return await self._call(read)

    async def make_root(
        self, server_id: str, image: CachedImage, source: Any, size_bytes: int, operation_key: str
    ) -> RootPlan:
        _check_id(server_id)
        return await self._files.make_root(server_id, image, source, size_bytes, operation_key)

    async def fill_root(
        self, server_id: str, image: CachedImage, source: Any, size_bytes: int, operation_key: str
    ) -> RootPlan:
        _check_id(server_id)
        return await self._files.fill_root(server_id, image, source, size_bytes, operation_key)

    async def define(self, plan: GuestPlan) -> None:
        _check_id(plan.server_id)
        handle = self._connection.handle
        console = self._files.console_path(plan.server_id)
        check_disks(*plan.disks)
        own = [disk.source for disk in (plan.root, plan.swap) if disk is not None]

        def define() -> None:
            console.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
            sources = (*own, *(disk.source for disk in plan.disks))
            machine = Machine(
                domain_type="kvm" if self._accelerator == "kvm" else "qemu",
                console=console,
                drive=self._drive_path(plan.server_id),
                direct=devices.opens_directly(*sources),
            )
            handle.defineXML(domain_xml.build_domain(plan, machine))

        async with self._lock(plan.server_id):
            await self._call(define)

    async def redefine_disks(self, server_id: str, disks: tuple[DiskPlan, ...]) -> None:
        sources = [disk.source for disk in disks]
        check_disks(*disks)

        def redefine(xml: str) -> str:
            direct = devices.opens_directly(*sources)
            return start_disks.replace_volumes(xml, disks, direct=direct)

        await self._redefine(server_id, redefine)

    async def make_rescue(
        self,
        server_id: str,
        wanted: RescueDisk,
        image: CachedImage,
        source: Path,
        operation_key: str,
    ) -> RescuePlan:
        async with self._lock(server_id):
            path = await self._files.make_rescue(server_id, image, source, operation_key)
        return RescuePlan(
            path=path,
            format=ROOT_FORMAT,
            image_id=wanted.image_id,
            device=wanted.device,
            bus=wanted.bus,
            is_stable=wanted.is_stable,
        )

    async def redefine_start(
        self, server_id: str, disks: tuple[DiskPlan, ...], rescue: RescuePlan | None
    ) -> None:
        sources = [disk.source for disk in disks]
        check_disks(*disks)

        def redefine(xml: str) -> str:
            own = [] if rescue is None else [rescue.source]
            direct = devices.opens_directly(*sources, *own)
            return start_disks.replace_start(xml, disks, rescue, direct=direct)

        await self._redefine(server_id, redefine)
        if rescue is None:
            await run_to_end(lambda: self._files.drop_rescue(server_id))

    async def redefine_shares(self, server_id: str, shares: tuple[GuestShare, ...]) -> None:
        await self._redefine(server_id, lambda xml: share_devices.replace(xml, shares))

    async def drop_share(self, server_id: str, share_id: str) -> None:
        handle = self._connection.handle

        def drop(domain: Any) -> None:
            xml = devices.without_share(domain, server_id, share_id)
            if xml is not None:
                handle.defineXML(xml)

        async with self._lock(server_id):
            with suppress(NotFound):
                await self._with(server_id, drop)

    async def power_on(self, server_id: str) -> None:
        async with self._lock(server_id):
            if is_off := await self._look(server_id, power.is_off):
                await self._give_files(server_id)
            # Nothing is silent yet where nothing runs.
            await self._with(
                server_id, power.start, self._settings.guest_start_s if is_off else None
            )

    async def power_off(self, server_id: str, graceful_s: float) -> None:
        async with self._lock(server_id):
            if graceful_s <= 0 or not await self._shut_down(server_id, graceful_s):
                # Not after the calls to its emulator: this ends one that hangs, and them with it.
                await self._look(server_id, power.switch_off)
                await self._asked.until_quiet(server_id, was_ended=True)
            await self._look(server_id, memory.drop)

    async def remove(self, server_id: str, *, keeps_disks: bool = False) -> None:
        handle = self._connection.handle

        def remove() -> None:
            domain = find_domain(handle, server_id)
            if domain is not None:
                power.switch_off(domain)
                power.undefine(domain)
            self._connection.remove_log(server_id)
            config_drives.take_up(self._files.directory / server_id)
            self._files.drop_rescue(server_id)
            swap_disks.drop(self._files.directory / server_id)
            if not keeps_disks:
                self._files.remove(server_id)

        async with self._lock(server_id):
            await self._call(remove)
            await self._asked.until_quiet(server_id, was_ended=True)

    async def until_quiet(self, server_id: str) -> None:
        await self._asked.until_quiet(server_id)

    async def plug(self, server_id: str, disk: DiskPlan) -> GuestDisk:
        def plug(domain: Any) -> GuestDisk:
            devices.plug(domain, server_id, disk, direct=devices.opens_directly(disk.source))
            return states.show_disk(domain, disk.volume_id)

        async with self._lock(server_id):
            return await self._with(server_id, plug)

    async def resize_disk(self, server_id: str, volume_id: str, size_bytes: int) -> DiskSize:
        async with self._lock(server_id):
            for _ in range(AGENT_RESIZE_TRIES):
                grown = await self._with(
                    server_id, lambda one: sizes.resize_live(one, volume_id, size_bytes)
                )
                if grown is not None:
                    return grown
                disk = await self._with(server_id, lambda one: sizes.find_at_rest(one, volume_id))
                if disk is None:
                    continue
                try:
                    return await sizes.resize_at_rest(self._qemu_img, disk, size_bytes)
                except InUse:
                    log.info("the disk of a stopped guest is in use", server_id=server_id)
        raise open_elsewhere(server_id, volume_id)

    async def disk_size(self, server_id: str, volume_id: str) -> DiskSize:
        return await self._with(server_id, lambda one: sizes.read(one, volume_id))

    async def snapshot_disk(self, server_id: str, volume_id: str, new_file: str) -> GuestDisk:
        return await self._overlays.snapshot(server_id, volume_id, new_file)

    async def take_back_snapshot(
        self, server_id: str, volume_id: str, new_file: str, operation_key: str
    ) -> GuestDisk | None:
        return await self._overlays.take_back(server_id, volume_id, new_file, operation_key)

    async def merge_disk(
        self, server_id: str, volume_id: str, merge: MergeRequest, operation_key: str
    ) -> GuestDisk:
        return await self._overlays.merge(server_id, volume_id, merge, operation_key)

    async def stop_merge(self, server_id: str, volume_id: str) -> None:
        await self._overlays.stop(server_id, volume_id)

    async def console(self, server_id: str, lines: int | None) -> str:
        await self._look(server_id, lambda _: None)
        return await run_to_end(lambda: self._files.read_console(server_id, lines))

    async def _redefine(self, server_id: str, change: Callable[[str], str]) -> None:
        """Change the definition that a guest has for its next start."""
        handle = self._connection.handle

        def redefine(domain: Any) -> None:
            xml = domain.XMLDesc(devices.INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE)
            handle.defineXML(change(xml))

        async with self._lock(server_id):
            await self._with(server_id, redefine)

    async def _shut_down(self, server_id: str, graceful_s: float) -> bool:
        """Press the power button now and then; return whether the guest went."""
        deadline = time.monotonic() + graceful_s
        try:
            while (left := deadline - time.monotonic()) > 0:
                await self._with(server_id, power.press_power_button)
                if await self._until(server_id, power.is_off, min(left, AGENT_ACPI_ASK_S)):
                    return True
        except Unavailable as error:
            log.warning("a guest cannot be asked", server_id=server_id, reason=str(error))
        return False

    async def _listen(self, tell: Tell) -> None:
        handle, loop = self._connection.handle, asyncio.get_running_loop()
        self._tell = tell

        def pass_on(news: News | None) -> None:
            # libvirt's thread may outlive the loop that it reports to.
            if news is not None and not loop.is_closed():
                loop.call_soon_threadsafe(tell, news)

        def say_changed(_: Any, domain: Any, event: int, detail: int, __: Any) -> None:
            pass_on(states.news_of(domain, event, detail))

        def say_removed(_: Any, domain: Any, alias: str, __: Any) -> None:
            pass_on(states.news_of_removal(domain, alias))

        def say_gone(_: Any, __: int, ___: Any) -> None:
            pass_on(News(kind=GONE, server_id=""))

        await self._call(lambda: handle.registerCloseCallback(say_gone, None))
        heard = {
            libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE: say_changed,
            libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED: say_removed,
        }
        for event, hear in heard.items():
            watch = partial(handle.domainEventRegisterAny, None, event, hear, None)
            self._watches.append(await self._call(watch))


def _check_id(server_id: str) -> None:
    if not _UUID.fullmatch(server_id):
        raise Invalid(f"The server id {server_id} is no UUID; libvirt takes nothing else.")


def _tell_nobody(news: News) -> None:
    del news
