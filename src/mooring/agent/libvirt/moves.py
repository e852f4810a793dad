"""Guests that go from one libvirt daemon to another, peer to peer (facts/real_hosts.md 4).

The source's daemon drives it by itself, so it goes on when the agent dies. The definition stays
behind, switched off as `migrated`, until the control plane has it deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import libvirt
import structlog

from mooring.agent import swap_disks
from mooring.agent.guest_calls import run_apart
from mooring.agent.guest_files import stands_alone
from mooring.agent.hypervisor import SECTOR_BYTES, Landing
from mooring.agent.libvirt import (
    copy_ends,
    domain_xml,
    drive_devices,
    inactive,
    power,
    rescue_devices,
    states,
)
from mooring.agent.libvirt.connection import guarded
from mooring.agent.libvirt.domain_xml import DefinedDisk
from mooring.agent.libvirt.drives import LibvirtDrives
from mooring.agent.libvirt.host import find_domain
from mooring.agent.move_checks import check_portrait
from mooring.agent.move_identity import MoveIdentity
from mooring.agent.rescues import check_own_disks
from mooring.agent.sources import file_of
from mooring.agent.waiting import until_told
from mooring.agent_api.images import CachedImage
from mooring.agent_api.moves import Arrival, LocalRoot, LocalSwap, Portrait, Progress
from mooring.agent_api.servers import GuestState
from mooring.errors import Conflict, NotFound, Unavailable
from mooring.fence.threads import run_to_end
from mooring.limits import AGENT_LONG_CALL_S

log = structlog.get_logger()
_FLAGS = (
    libvirt.VIR_MIGRATE_LIVE
    | libvirt.VIR_MIGRATE_PEER2PEER
    | libvirt.VIR_MIGRATE_PERSIST_DEST
    | libvirt.VIR_MIGRATE_AUTO_CONVERGE
    # That both hosts see the disks is known: each has them connected. libvirt only knows NFS.
    | libvirt.VIR_MIGRATE_UNSAFE
)
_COPIES = (
    # What the guest wrote over the image, which the other host has by itself; where there is none
    # below, that is all there is.
    libvirt.VIR_MIGRATE_NON_SHARED_INC
    # The guest waits for both disks, so that one which writes all the time is copied to an end.
    | libvirt.VIR_MIGRATE_NON_SHARED_SYNCHRONOUS_WRITES
)
_ALIVE = frozenset({"running", "paused"})
_FITS = frozenset({libvirt.VIR_CPU_COMPARE_IDENTICAL, libvirt.VIR_CPU_COMPARE_SUPERSET})
_XML = libvirt.VIR_DOMAIN_XML_MIGRATABLE | libvirt.VIR_DOMAIN_XML_SECURE


class LibvirtMoves(LibvirtDrives):
    """A part of `LibvirtHypervisor`."""

    async def portrait(self, server_id: str) -> Portrait:
        def read(domain: Any) -> tuple[str, LocalRoot | None, LocalSwap | None, str]:
            _check_alive(server_id, states.state_of(domain))
            xml = domain.XMLDesc(_XML)
            check_own_disks(server_id, rescue_devices.read_image(xml))
            # An emulated processor is the same on every host.
            cpu = domain_xml.read_cpu(xml) if self._accelerator == "kvm" else ""
            drive = drive_devices.read(xml)
            return cpu, _measure_root(domain, xml), _measure_swap(domain, xml), drive

        (cpu, root, swap, drive), facts = await self._with(server_id, read), await self.facts()
        return Portrait(
            hypervisor=facts.kind,
            accelerator=facts.accelerator,
            version=facts.version,
            cpu=cpu,
            root=root,
            swap=swap,
            drive=await self._read_drive(drive),
        )

    async def expect(self, server_id: str, portrait: Portrait) -> None:
        await self.find_landing(server_id)
        check_portrait(portrait, await self.facts(), self._settings.name)
        handle, console = self._connection.handle, self._files.console_path(server_id)

        def prepare() -> None:
            domain = find_domain(handle, server_id)
            if domain is not None and states.state_of(domain) in _ALIVE:
                raise Conflict(f"Host {self._settings.name} has a guest {server_id} already.")
            if portrait.cpu and handle.compareCPU(portrait.cpu, 0) not in _FITS:
                raise Conflict(
                    f"The processor of host {self._settings.name} lacks what the guest of server "
                    f"{server_id} was started with. Choose another host."
                )
            console.parent.mkdir(mode=0o711, parents=True, exist_ok=True)

        async with self._lock(server_id):
            await self._call(prepare)

    async def expect_root(
        self,
        server_id: str,
        image: CachedImage | None,
        source: Path | None,
        root: LocalRoot,
        operation_key: str,
    ) -> None:
        async with self._lock(server_id):
            await self._check_off(server_id, "root disk")
            await self._files.make_root_anew(
                server_id, image, source, root.size_bytes, operation_key
            )
            await self._give_root(server_id)

    async def expect_swap(self, server_id: str, size_bytes: int, operation_key: str) -> None:
        own = self._files.directory / server_id
        async with self._lock(server_id):
            await self._check_off(server_id, "swap disk")
            await run_to_end(lambda: swap_disks.make_anew(own, size_bytes, operation_key))
            await run_to_end(lambda: self._emulator.give(own / swap_disks.FILE))

    async def find_landing(self, server_id: str) -> Landing:
        address = self._settings.move_address
        if self._connection.uri != "qemu:///system" or not address:
            raise Conflict(
                f"Host {self._settings.name} takes no running guests from other hosts: for that it "
                "needs a libvirt daemon, and the agent's setting move_address. Choose another host."
            )
        root, console = self._files.root_path(server_id), self._files.console_path(server_id)
        own = root, self._drive_path(server_id), root.with_name(swap_disks.FILE)
        file, drive, swap = [str(path) if await run_to_end(path.exists) else "" for path in own]
        return Landing(address=address, console=str(console), root=file, drive=drive, swap=swap)

    async def send(self, server_id: str, arrival: Arrival) -> None:
        async with self._lock(server_id):
            await self._until_not_sent(server_id)
            state = await self._look(server_id, states.state_of)
            if state == "migrated":
                return
            _check_alive(server_id, state)
            await self._with(server_id, inactive.hold)
            await self._with(server_id, copy_ends.end_all)
            await self._send(server_id, arrival)

    async def _send(self, server_id: str, arrival: Arrival) -> None:
        def migrate() -> None:
            domain = self._domain(server_id)
            live = domain_xml.arrive(domain.XMLDesc(_XML), arrival)
            rest = domain.XMLDesc(_XML | libvirt.VIR_DOMAIN_XML_INACTIVE)
            parameters: dict[str, Any] = {
                libvirt.VIR_MIGRATE_PARAM_URI: f"tcp://{arrival.address}",
                libvirt.VIR_MIGRATE_PARAM_DEST_XML: live,
                libvirt.VIR_MIGRATE_PARAM_PERSIST_XML: domain_xml.arrive(rest, arrival),
            }
            flags, daemon = _FLAGS, f"qemu+tcp://{arrival.address}/system"
            if arrival.tls:
                # Daemons know each other by address, emulators by the name of the other host.
                flags |= libvirt.VIR_MIGRATE_TLS
                parameters[libvirt.VIR_MIGRATE_PARAM_TLS_DESTINATION] = arrival.tls
                files = quote(str(MoveIdentity(self._settings).directory), safe="/")
                daemon = f"qemu+tls://{arrival.address}/system?pkipath={files}"
            if local := domain_xml.find_local(live):
                # Only these are copied: volumes are connected at both hosts.
                copied = [_target(disk) for disk in local]
                parameters[libvirt.VIR_MIGRATE_PARAM_MIGRATE_DISKS] = copied
                flags |= _COPIES
            with self._other_host_told(server_id):
                domain.migrateToURI3(daemon, parameters, flags)

        work = asyncio.create_task(run_apart(guarded(migrate), f"send-{server_id}"))
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            await self._give_up(server_id, work)
            raise

    @contextmanager
    def _other_host_told(self, server_id: str) -> Generator[None]:
        """Say of which host a daemon tells that it has no such guest: of this one, or the other."""
        try:
            yield
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                raise
            self._domain(server_id)
            raise Unavailable(
                f"The guest of server {server_id} did not arrive: the host that it was sent to had "
                "lost what had come of it. It is here as before. Ask again; if it stays so, the "
                "other host's log of the guest's QEMU says why.",
                private=str(error),
            ) from error

    async def _give_up(self, server_id: str, work: asyncio.Task[None]) -> None:
        """End a move; one whose emulator hangs ends with the guest."""
        try:
            while not work.done():
                await self._with(server_id, _abort)
                await asyncio.wait({work}, timeout=1.0)
        except (NotFound, Unavailable) as error:
            log.warning("a move goes on by itself", server_id=server_id, reason=str(error))

    async def progress(self, server_id: str) -> Progress:
        return await self._with(server_id, _read_progress)

    async def hasten(self, server_id: str) -> None:
        def suspend(domain: Any) -> None:
            if not _is_sent(domain):
                raise Conflict(
                    f"The guest of server {server_id} is not on its way to another host."
                )
            domain.suspend()

        await self._with(server_id, suspend)

    async def stop_sending(self, server_id: str) -> None:
        def stop(domain: Any) -> bool:
            if is_sent := _is_sent(domain):
                _abort(domain)
            return not is_sent

        async def has_stopped() -> bool:
            try:
                return await self._with(server_id, stop)
            except NotFound:
                return True

        await _insist(server_id, has_stopped, self._settings.guest_answer_s)

    async def turn_away(self, server_id: str) -> None:
        handle = self._connection.handle

        def forget() -> None:
            domain = find_domain(handle, server_id)
            if domain is not None:
                if states.state_of(domain) in _ALIVE:
                    raise Conflict(f"Host {self._settings.name} has the guest {server_id} by now.")
                power.switch_off(domain)
                power.undefine(domain)
            self._files.remove(server_id)

        async with self._lock(server_id):
            await self._call(forget)

    async def _until_not_sent(self, server_id: str) -> None:
        """Wait for what an agent before this one began: the daemon has gone on with it."""

        async def has_ended() -> bool:
            return not await self._with(server_id, _is_sent)

        await _insist(server_id, has_ended, AGENT_LONG_CALL_S)


async def _insist(server_id: str, holds: Callable[[], Any], timeout_s: float) -> None:
    if not await until_told(holds, timeout_s):
        raise Unavailable(
            f"The guest of server {server_id} is still on its way to another host. Ask again."
        )


def _measure_root(domain: Any, xml: str) -> LocalRoot | None:
    """Return the root disk that a running guest has on its host, if it has one."""
    definition, root = domain_xml.read_domain(xml), domain_xml.find_root(xml)
    if definition is None or root is None:
        return None
    seen, _, _ = domain.blockInfo(_target(root))
    file = Path(file_of(root.source, "a move").path)
    return LocalRoot(
        image_id="" if stands_alone(file) else definition.image_id,
        size_bytes=seen,
        data_bytes=file.stat().st_blocks * SECTOR_BYTES,
    )


def _measure_swap(domain: Any, xml: str) -> LocalSwap | None:
    """Return the swap disk that a running guest has on its host, if it has one."""
    for disk in domain_xml.find_local(xml):
        if disk.is_swap:
            seen, _, _ = domain.blockInfo(_target(disk))
            file = Path(file_of(disk.source, "a move").path)
            return LocalSwap(size_bytes=seen, data_bytes=file.stat().st_blocks * SECTOR_BYTES)
    return None


def _target(disk: DefinedDisk) -> str:
    return disk.device.removeprefix("/dev/")


def _check_alive(server_id: str, state: GuestState) -> None:
    if state not in _ALIVE:
        raise Conflict(f"The guest of server {server_id} is {state}; only one that runs moves.")


def _is_sent(domain: Any) -> bool:
    if not domain.isActive():
        return False
    job = domain.jobStats().get(libvirt.VIR_DOMAIN_JOB_OPERATION, 0)
    return bool(job == libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT)


def _abort(domain: Any) -> None:
    try:
        if _is_sent(domain):
            domain.abortJob()
    except libvirt.libvirtError:
        # It may have ended by itself between the two calls, or may not be stopped any more.
        return


def _read_progress(domain: Any) -> Progress:
    if not _is_sent(domain):
        return Progress()
    found = domain.jobStats()
    return Progress(
        memory_total_bytes=found.get(libvirt.VIR_DOMAIN_JOB_MEMORY_TOTAL, 0),
        memory_processed_bytes=found.get(libvirt.VIR_DOMAIN_JOB_MEMORY_PROCESSED, 0),
        memory_remaining_bytes=found.get(libvirt.VIR_DOMAIN_JOB_MEMORY_REMAINING, 0),
        disk_total_bytes=found.get(libvirt.VIR_DOMAIN_JOB_DISK_TOTAL, 0),
        disk_processed_bytes=found.get(libvirt.VIR_DOMAIN_JOB_DISK_PROCESSED, 0),
        disk_remaining_bytes=found.get(libvirt.VIR_DOMAIN_JOB_DISK_REMAINING, 0),
    )
