"""What everything that libvirt does for guests stands on: its connection, files, locks, calls."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import libvirt
import structlog

from mooring.agent import seclusion
from mooring.agent.emulator_files import EmulatorFiles
from mooring.agent.guest_calls import GuestCalls, run_apart
from mooring.agent.guest_files import ROOT_FORMAT, GuestFiles
from mooring.agent.hypervisor import SHARE_TRAITS, TRAITS, Facts
from mooring.agent.hypervisor_memory import Way
from mooring.agent.libvirt import (
    accelerator,
    confinement,
    domain_xml,
    drive_devices,
    network_devices,
)
from mooring.agent.libvirt.connection import Connection, guarded
from mooring.agent.libvirt.xml_words import parse
from mooring.agent.qemu_img import GIB, QemuImg
from mooring.agent.run import Runner
from mooring.agent.settings import AgentSettings
from mooring.agent.sources import FileSource, Source
from mooring.agent.storage_failures import disk_failure_told
from mooring.agent.virtiofsd import find_virtiofsd
from mooring.agent_api.hosts import AGENT_VERSION
from mooring.errors import MooringError, NotFound, Unavailable
from mooring.fence.threads import run_to_end

log = structlog.get_logger()
T = TypeVar("T")


class LibvirtHost:
    """One host's libvirt, and the ways to ask it of a guest."""

    def __init__(self, settings: AgentSettings, runner: Runner, way: Way = "") -> None:
        self._settings, self._runner = settings, runner
        self._connection = Connection(settings.state_dir / "libvirt", runner, way)
        self._qemu_img = QemuImg(runner)
        self._emulator = EmulatorFiles(runner)
        self._files = GuestFiles(settings.state_dir / "guests", self._qemu_img)
        self._accelerator: accelerator.Accelerator = "tcg"
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._asked = GuestCalls(settings.guest_answer_s)

    @property
    def way(self) -> Way:
        """Who runs the guests."""
        return "own" if self._connection.is_own else "daemon"

    @property
    def is_passed(self) -> bool:
        """Whether QEMU is another user than the agent, whom the state directory lets pass."""
        return self._emulator.user is not None or not self._connection.is_own

    async def admit(self, source: Source) -> None:
        await self._emulator.admit(source)

    async def _open(self) -> None:
        """Connect to libvirt, once it is known how QEMU is shut in. Raises Unavailable."""
        await run_to_end(self._files.prepare)
        settings, is_own = self._settings, self._connection.is_own
        self._emulator.user = await run_to_end(
            lambda: confinement.choose_user(settings.emulator_user if is_own else "")
        )
        if (user := self._emulator.user) is not None:
            for directory in (*settings.passages, settings.state_dir):
                seclusion.let_emulator_pass(directory, user.name)
        elif not is_own:
            seclusion.let_emulator_pass(settings.state_dir)
        await self._check_way()
        await self._emulator.open_kvm(accelerator.KVM)
        self._accelerator = await accelerator.choose(
            self._runner, settings.state_dir, self._emulator
        )
        user = self._emulator.user
        confined = (
            await confinement.find(self._runner, user, settings.state_dir) if is_own else None
        )
        await self._connection.open(confined.conf() if confined else "")

    async def _check_way(self) -> None:
        """Raise Unavailable unless QEMU's user gets at what lies in the state directory.

        Where the release before ran guests as root, they go on so instead, and the log says it.
        """
        try:
            await self._emulator.check_passes(self._settings.state_dir.absolute())
        except Unavailable as error:
            if not await run_to_end(self._connection.ran_as_root):
                raise
            log.warning("guests go on to run as root, with all its rights", reason=error.public)
            self._emulator.user = None

    async def _give_files(self, server_id: str) -> None:
        """Give a guest that is to start its files. Raises NotFound, Invalid, Unavailable."""
        if self._emulator.user is None:
            return
        xml = await self._look(server_id, lambda one: one.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
        own = self._files.directory

        def give() -> None:
            domain = parse(xml)
            for disk in map(domain_xml.read_disk, domain_xml.all_disks(domain)):
                source = disk.source
                if isinstance(source, FileSource) and Path(source.path).is_relative_to(own):
                    self._emulator.give_top(source)
                else:
                    with disk_failure_told(disk.volume_id):
                        self._emulator.give_disk(source)
            if drive := drive_devices.find(domain):
                self._emulator.give(Path(drive))

        await run_to_end(give)

    async def _give_root(self, server_id: str) -> None:
        root = FileSource(str(self._files.root_path(server_id)), ROOT_FORMAT)
        await run_to_end(lambda: self._emulator.give_top(root))

    async def facts(self) -> Facts:
        await run_to_end(self._files.trim_consoles)
        problem, version, memory_mib, cpus = "", 0, 0, 0
        handle = self._connection.handle
        try:
            info = await self._call(handle.getInfo)
            memory_mib, cpus = info[1], info[2]
            version = await self._call(handle.getVersion)
            problem = network_devices.problem_of(await self._call(handle.getLibVersion))
        except MooringError as error:
            problem = f"libvirt does not answer; see to it on the host. ({error})"
        space = os.statvfs(self._files.directory)
        return Facts(
            kind="libvirt",
            version=version,
            accelerator=self._accelerator,
            vcpus=cpus,
            memory_mib=max(0, memory_mib - self._settings.reserved_memory_mib),
            disk_gib=space.f_blocks * space.f_frsize // GIB,
            traits=TRAITS | SHARE_TRAITS if find_virtiofsd() else TRAITS,
            agent_version=AGENT_VERSION,
            problem=problem,
        )

    def _lock(self, server_id: str) -> asyncio.Lock:
        return self._locks.setdefault(server_id, asyncio.Lock())

    async def _call(self, fn: Callable[[], T]) -> T:
        return await self._connection.call(fn)

    async def _with(
        self, server_id: str, fn: Callable[[Any], T], within_s: float | None = None
    ) -> T:
        """Run what may ask a guest's emulator on its domain. Raises NotFound, Unavailable."""

        def run() -> T:
            return fn(self._domain(server_id))

        call = guarded(run)
        return await self._asked.ask(
            server_id, lambda: run_apart(call, f"guest-{server_id}"), within_s
        )

    async def _look(self, server_id: str, fn: Callable[[Any], T]) -> T:
        """Run on a guest's domain what asks nothing of its emulator. Raises NotFound."""
        return await self._call(lambda: fn(self._domain(server_id)))

    def _domain(self, server_id: str) -> Any:
        if (domain := find_domain(self._connection.handle, server_id)) is None:
            raise NotFound(f"Host {self._settings.name} has no guest {server_id}.")
        return domain


def find_domain(handle: Any, server_id: str) -> Any:
    """Return a domain, or None."""
    try:
        return handle.lookupByName(domain_xml.domain_name(server_id))
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise
