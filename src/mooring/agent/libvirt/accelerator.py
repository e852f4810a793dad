"""Whether KVM is of use: found out by booting, because /dev/kvm may exist and not work.

Source: facts/real_hosts.md 1. One sector boots under KVM and without it. A working KVM is up in
well under a second; one that is emulated itself, or hangs, is not.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Literal

import structlog
from msgspec import Struct

from mooring.agent import files
from mooring.agent.emulator_files import EmulatorFiles, EmulatorUser
from mooring.agent.limits import AGENT_KVM_LATER_S, AGENT_PROGRAM_S
from mooring.agent.run import Budget, Runner, find_program
from mooring.errors import Unavailable
from mooring.fence.threads import run_to_end

log = structlog.get_logger()
Accelerator = Literal["kvm", "tcg"]
EMULATOR = "qemu-system-x86_64"
KVM = Path("/dev/kvm")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PORT = 0xF4
_VALUE = 0x10
RECORD = "accelerator.json"
"""Where a host's directory keeps what was found out."""
# mov al, VALUE; out PORT, al; hlt. QEMU's debug port makes of a value the exit code 2 * value + 1.
_SECTOR = bytes([0xB0, _VALUE, 0xE6, _PORT, 0xF4]).ljust(510, b"\0") + b"\x55\xaa"
_BOOTED = 2 * _VALUE + 1


class _Found(Struct, frozen=True):
    """What was found out, and for which emulator and kernel.

    doubt   the machine's start, and who was let to KVM, where it was of no use
    """

    accelerator: Accelerator
    about: str
    doubt: str = ""


async def choose(
    runner: Runner, state_dir: Path, emulator: EmulatorFiles | None = None
) -> Accelerator:
    """Return what guests should run on; found once for each kernel and QEMU, then remembered.

    That KVM is of no use is so for one start of the machine, and with the same rights to KVM: it
    may have been slow once, or be let to QEMU's user since.

    Raises Unavailable, with what QEMU did instead, when it boots nothing at all.
    """
    record = state_dir / RECORD
    user = emulator.user if emulator else None
    about = await run_to_end(lambda: _about(user))
    doubt = await run_to_end(_doubt)
    known = files.read_record(record, _Found)
    if known is not None and _still_holds(known, about, doubt):
        return known.accelerator
    sector = state_dir / "boot-sector"
    await run_to_end(lambda: sector.write_bytes(_SECTOR))
    if emulator is not None:
        await run_to_end(lambda: emulator.give(sector))
    found = await _try_both(runner, sector, user)
    files.write_record(record, _Found(found, about, "" if found == "kvm" else doubt))
    return found


def why_emulated() -> str:
    """Return what keeps guests from running on KVM here, and what to do about it."""
    if not KVM.exists():
        return (
            "emulated, so slow: there is no /dev/kvm; load the module kvm_intel or kvm_amd, with "
            "virtualisation on in the firmware"
        )
    return (
        "emulated, so slow: /dev/kvm is there, but of no use; on a virtual machine, turn on "
        "nested virtualisation underneath, and see that QEMU's user is in the group of /dev/kvm"
    )


def _still_holds(known: _Found, about: str, doubt: str) -> bool:
    return known.about == about and (known.accelerator == "kvm" or known.doubt == doubt)


async def _try_both(runner: Runner, sector: Path, user: EmulatorUser | None) -> Accelerator:
    command = user.words(EMULATOR) if user else [EMULATOR]
    try:
        without = await _boot(runner, command, sector, "tcg", AGENT_PROGRAM_S)
    except Unavailable as error:
        raise Unavailable(
            f"No guest can run here: {error.public} {EMULATOR} was to boot one sector. See what "
            "keeps the host busy and start the agent again; if it is idle, reinstall the package "
            "qemu-system-x86, or choose the simulated hypervisor.",
            private=error.private,
        ) from error
    if not await run_to_end(KVM.exists):
        return "tcg"
    try:
        with_kvm = await _boot(runner, command, sector, "kvm", without + AGENT_KVM_LATER_S)
    except Unavailable as error:
        log.info("KVM is of no use", tcg_s=without, reason=error.public, private=error.private)
        return "tcg"
    log.info("KVM is used", kvm_s=with_kvm, tcg_s=without)
    return "kvm"


async def _boot(
    runner: Runner, command: list[str], sector: Path, accelerator: Accelerator, timeout_s: float
) -> float:
    """Return how long one sector takes to boot in seconds. Raises Unavailable when it does not."""
    argv = [*command, "-accel", accelerator, "-nodefaults", "-no-user-config", "-m", "16"]
    argv += ["-display", "none", "-device", f"isa-debug-exit,iobase={_PORT},iosize=4"]
    argv += ["-drive", f"file={sector},format=raw,if=ide,read-only=off"]
    began = time.monotonic()
    output = await runner.run(argv, Budget(timeout_s=timeout_s, cpu_s=0, memory_bytes=0))
    if output.code != _BOOTED:
        raise Unavailable(
            f"QEMU ended with {output.code} instead of {_BOOTED}.", private=output.err
        )
    return time.monotonic() - began


def _about(user: EmulatorUser | None) -> str:
    kernel = Path("/proc/sys/kernel/osrelease").read_text("ascii").strip()
    emulator = Path(find_program(EMULATOR)).stat()
    # Whether a user may open it is a matter of groups.
    groups = f" {user.name} {os.getgrouplist(user.name, user.gid)}" if user else ""
    return f"{kernel} {emulator.st_size} {emulator.st_mtime_ns} {KVM.exists()}{groups}"


def _doubt() -> str:
    """Return what may have to do with a KVM that is there and does not work. Never empty."""
    boot_id = BOOT_ID.read_text("ascii").strip()
    rights = ""
    if KVM.exists():
        status = KVM.stat()
        rights = f"{status.st_uid}:{status.st_gid} {status.st_mode:o}"
    return f"{boot_id} {rights} {os.geteuid()} {sorted(os.getgroups())}"
