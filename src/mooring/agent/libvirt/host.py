"""What everything that libvirt does for guests stands on: its connection, files, locks, calls."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import libvirt

from mooring.agent.guest_calls import GuestCalls, run_apart
from mooring.agent.guest_files import GuestFiles
from mooring.agent.hypervisor import SHARE_TRAITS, TRAITS, Facts
from mooring.agent.libvirt import accelerator, domain_xml, network_devices
from mooring.agent.libvirt.connection import Connection, guarded
from mooring.agent.qemu_img import GIB, QemuImg
from mooring.agent.run import Runner
from mooring.agent.settings import AgentSettings
from mooring.agent.virtiofsd import find_virtiofsd
from mooring.agent_api.hosts import AGENT_VERSION
from mooring.errors import MooringError, NotFound
from mooring.fence.threads import run_to_end

T = TypeVar("T")


class LibvirtHost:
    """One host's libvirt, and the ways to ask it of a guest."""

    def __init__(self, settings: AgentSettings, runner: Runner) -> None:
        self._settings, self._runner = settings, runner
        self._connection = Connection(settings.state_dir / "libvirt", runner)
        self._qemu_img = QemuImg(runner)
        self._files = GuestFiles(settings.state_dir / "guests", self._qemu_img)
        self._accelerator: accelerator.Accelerator = "tcg"
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._asked = GuestCalls(settings.guest_answer_s)

    @property
    def is_of_daemon(self) -> bool:
        """Whether guests are the machine's daemon's, so that QEMU runs as a user of its own."""
        return self._connection.uri == "qemu:///system"

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
