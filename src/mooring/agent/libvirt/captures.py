"""Captures of root disks: by qemu-img from a guest that is off, else by the guest's own QEMU.

QEMU copies the disk to another file and keeps that in step with what the guest writes. Ended once
both are the same, without a change to the other file, it leaves the disk as it was at that moment.
The guest's disk is never switched to anything: whatever dies meanwhile, it is whole.
Source: facts/compute.md 14.2.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import libvirt

from mooring.agent.copies import check_room
from mooring.agent.guest_files import BASE, ROOT, ROOT_FORMAT
from mooring.agent.libvirt import copy_ends, copy_starts, domain_xml, open_files
from mooring.agent.libvirt.standstill import LibvirtStandstill
from mooring.agent.limits import AGENT_MERGE_POLL_S
from mooring.errors import Conflict, NotFound, Unavailable
from mooring.fence.threads import run_to_end
from mooring.probe import Passing, passing_in

_COPY = libvirt.VIR_DOMAIN_BLOCK_JOB_TYPE_COPY
# libvirt forgets such a job with its guest, which a definition that is kept asks for.
# The file is there: libvirt would make one of its own, which QEMU's user may not open.
_FLAGS = libvirt.VIR_DOMAIN_BLOCK_COPY_TRANSIENT_JOB | libvirt.VIR_DOMAIN_BLOCK_COPY_REUSE_EXT


class LibvirtCaptures(LibvirtStandstill):
    """A part of `LibvirtHypervisor`."""

    async def capture_root(self, server_id: str, written: Path, operation_key: str) -> None:
        own = self._files.directory / server_id
        await self._look(server_id, _root_device)
        await run_to_end(lambda: check_room(own, server_id, _used_bytes(own)))
        # A job that an agent before this one began writes to a file that has no name any more.
        await self.stop_capture(server_id)
        is_begun = False
        while True:
            async with self._lock(server_id):
                if await self._look(server_id, lambda domain: not domain.isActive()):
                    await run_to_end(lambda: written.unlink(missing_ok=True))
                    await self._qemu_img.convert(
                        (own / ROOT, ROOT_FORMAT),
                        (written, ROOT_FORMAT),
                        operation_key=operation_key,
                    )
                    return
                if not is_begun:
                    size_bytes = await self._with(server_id, _read_size)
                    await self._make_target(written, size_bytes, operation_key)
                passing = None if is_begun else passing_in(self.probe, "put_capture")
                if await self._with(
                    server_id, lambda domain, passing=passing: _copy(domain, written, passing)
                ):
                    return
            is_begun = True
            await asyncio.sleep(AGENT_MERGE_POLL_S)

    async def _make_target(self, written: Path, size_bytes: int, operation_key: str) -> None:
        await run_to_end(lambda: written.unlink(missing_ok=True))
        await self._qemu_img.create(written, ROOT_FORMAT, size_bytes, operation_key=operation_key)
        await run_to_end(lambda: self._emulator.give(written))

    async def stop_capture(self, server_id: str) -> None:
        async with self._lock(server_id):
            try:
                is_off = await self._look(server_id, lambda domain: not domain.isActive())
                if not is_off:
                    await self._with(server_id, _stop)
            except NotFound:
                return


def _copy(domain: Any, written: Path, passing: Passing | None) -> bool:
    """Do the next thing that copies a root disk; return whether all of it is done.

    `passing`: it is to begin; None where it has begun.
    """
    xml, device = domain.XMLDesc(0), _root_device(domain)
    job = domain.blockJobInfo(device, 0)
    if job and job["type"] != _COPY:
        raise Conflict(
            f"Something else is done to the disk of {domain.name()}. It was not copied; ask again "
            "when that is over.",
            busy=True,
        )
    if job and passing is None:
        if not open_files.is_in_step(xml, device):
            return False
        domain.blockJobAbort(device, 0)
        return True
    if passing is None:
        raise Unavailable(
            f"The copy of the disk of {domain.name()} ended before its time, and was removed; the "
            "guest goes on. Its host may be out of room, and the log of its QEMU says why."
        )
    target = _target(written)
    begin = partial(domain.blockCopy, device, target, None, _FLAGS)
    copy_starts.begin(domain, device, begin, passing)
    return False


def _read_size(domain: Any) -> int:
    """Return how big a running guest's root disk is, in bytes."""
    size_bytes: int = domain.blockInfo(_root_device(domain))[0]
    return size_bytes


def _stop(domain: Any) -> None:
    """End the copy of a root disk, if there is one."""
    copy_starts.settle(domain)
    root = domain_xml.find_root(domain.XMLDesc(0))
    if root is not None:
        copy_ends.end_job(domain, copy_ends.target_of(root))


def _root_device(domain: Any) -> str:
    """Return what libvirt calls the root disk. Raises NotFound."""
    root = domain_xml.find_root(domain.XMLDesc(0))
    if root is None:
        raise NotFound(f"The guest {domain.name()} has no root disk on its host.")
    return root.device.removeprefix("/dev/")


def _target(written: Path) -> str:
    disk = ET.Element("disk", type="file")
    ET.SubElement(disk, "driver", type=ROOT_FORMAT)
    ET.SubElement(disk, "source", file=str(written))
    return ET.tostring(disk, encoding="unicode")


def _used_bytes(own: Path) -> int:
    """Return how many bytes the disk may have at most, from what its layers take now."""
    layers = [own / name for name in (BASE, ROOT)]
    return sum(layer.stat().st_blocks * 512 for layer in layers if layer.exists())
