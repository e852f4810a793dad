"""Who lives in a lab's network namespaces: libvirt daemons and emulators, those of a dead lab too.

Only what a lab has made is found here: a process in one of its namespaces that has a `/run/libvirt`
of its own, as `mooring.lab.inside` gives it. A shell that somebody opened in a namespace has not.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from mooring.agent.run import start_time
from mooring.agent.waiting import until
from mooring.errors import Unavailable
from mooring.process_groups import check_pid

NOTES = "run/libvirt"
"""Where a host's daemon notes what runs, in the host's directory."""
SHARES = "run/mooring-shares"
"""Below which each host mounts shares: one path for all, and in each a directory of its own."""
_DAEMON, _EMULATOR = "libvirtd", "qemu-system-"
_GUEST = "guest=mooring-"
_ENDS_S = 30.0


Home = tuple[int, int]
"""A directory, by its device and inode."""


class Resident(Struct, frozen=True, kw_only=True):
    """One process: id, start in clock ticks, command line, and what it has for `/run/libvirt`."""

    pid: int
    started: float
    words: str
    home: Home

    @property
    def is_guest(self) -> bool:
        """Whether it runs a guest, or expects one from another host."""
        return not self.is_daemon and _GUEST in self.words

    @property
    def is_daemon(self) -> bool:
        """Whether it is a libvirt daemon."""
        return self.words.split(" ", 1)[0].endswith(_DAEMON)


def find_residents(namespace: Path) -> list[Resident]:
    """Return the daemons and emulators in a namespace, named by its file; none without the file."""
    try:
        inside = _identify(namespace)
    except FileNotFoundError:
        return []
    machine = Path("/") / NOTES
    outside = _identify(machine) if machine.exists() else None
    found: list[Resident] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if _identify(process / "ns/net") != inside:
                continue
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            program = words.split(" ", 1)[0].rpartition("/")[2]
            home = _identify(process / "root" / NOTES)
            if home != outside and (program == _DAEMON or program.startswith(_EMULATOR)):
                pid = int(process.name)
                started = start_time(pid)
                found.append(Resident(pid=pid, started=started, words=words, home=home))
    return found


def find_homes(directory: Path) -> set[Home]:
    """Return what the hosts whose directories are in this one have for `/run/libvirt`."""
    return {_identify(home) for home in directory.glob(f"*/{NOTES}")}


def find_home(directory: Path) -> Home | None:
    """Return what the host in a directory has for `/run/libvirt`; None for one without libvirt."""
    home = directory / NOTES
    return _identify(home) if home.exists() else None


async def end_residents(residents: Iterable[Resident], how: signal.Signals) -> None:
    """End processes and wait until they have. Raises Unavailable when one does not in 30 s."""
    for each in residents:
        if start_time(each.pid) != each.started:
            continue
        with suppress(ProcessLookupError):
            os.kill(check_pid(each.pid), how)
        if not await until(lambda one=each: start_time(one.pid) != one.started, _ENDS_S):
            raise Unavailable(
                f"Process {each.pid} ({each.words[:80]}) of a host of this lab does not end. See "
                "what it waits for, end it, and ask again."
            )


def _identify(path: Path) -> Home:
    found = path.stat()
    return found.st_dev, found.st_ino
