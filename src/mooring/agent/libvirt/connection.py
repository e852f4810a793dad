"""The connection to libvirt: to the machine's daemon, or to a libvirt of our own in this process.

Source: facts/real_hosts.md 3. libvirt's calls block, so each runs in a thread that is waited for.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import libvirt
import structlog

from mooring.agent.hypervisor_memory import Way
from mooring.agent.image_locks import image_in_use
from mooring.agent.libvirt.domain_xml import NAME_PREFIX
from mooring.agent.limits import AGENT_LIBVIRT_THREADS
from mooring.agent.run import Runner, find_processes
from mooring.agent.seclusion import EMULATOR, EMULATORS, is_there, named_root
from mooring.errors import MooringError, NoCapacity, NotFound, Unavailable
from mooring.fence.threads import run_to_end

log = structlog.get_logger()
T = TypeVar("T")
# Half of the binding has no types.
binding: Any = libvirt
DAEMON_SOCKETS = (Path("/run/libvirt/libvirt-sock"), Path("/run/libvirt/virtqemud-sock"))
# What is left of 107 bytes beside "/lib/qemu/domain-<number>-<20 letters>/monitor.sock".
_ROOT_BYTES = 48
_CONF = "etc/qemu.conf"
_AGAIN_S = 1.0

_NO_HUGE_PAGES = (
    "The host has no huge pages as the flavor's hw:mem_page_size wants them; the guest was not "
    "started. Mount hugetlbfs there and set vm.nr_hugepages, or choose another host."
)
_FULL = "The host's disk is full. Make room, then try again."
_NOT_ALLOWED = (
    "The user whom guests of this host run as may not open a file that the guest needs; the guest "
    "is as the host shows it now. Where a share keeps its files from that user, let its server "
    "give them to it (docs/hosts.md, what isolates a guest), then ask again."
)
_NO_ROOM = {
    "hugetlbfs": _NO_HUGE_PAGES,
    "huge pages": _NO_HUGE_PAGES,
    "Cannot allocate memory": (
        "The host has too little free memory for the guest; it was not started. Stop other guests "
        "or choose another host."
    ),
    "No more available PCI slots": "The guest has no free slot for another disk.",
    "No space left on device": _FULL,
    "File too large": _FULL,
}
"""What libvirt says where a host has no room for a guest, and what that means."""


def _has_daemon() -> bool:
    return any(socket.is_socket() for socket in DAEMON_SOCKETS)


class Connection:
    """One open connection, and the threads that use it."""

    def __init__(self, root: Path, runner: Runner, way: Way = "") -> None:
        self._root, self._runner, self._way = root, runner, way
        self._threads = ThreadPoolExecutor(AGENT_LIBVIRT_THREADS, "libvirt")
        self._open: Any = None
        self.uri = ""
        self.is_own = way == "own" or not (way or _has_daemon())
        """Whether libvirt runs in this process: guests are where they were begun, and else there
        is no daemon."""

    async def open(self, conf: str = "") -> None:
        """Connect; a libvirt of our own runs by `conf`. Raises Unavailable with what to do."""
        if self._way == "daemon" and not _has_daemon():
            raise Unavailable(
                "The machine's libvirt daemon, which has this host's guests, does not listen. They "
                "go on unwatched. Start it (systemctl start libvirtd, or virtqemud), and then the "
                "agent."
            )
        _run_event_loop()
        self.uri = "qemu:///embed" if self.is_own else "qemu:///system"
        if self.is_own:
            check_user()
            await run_to_end(lambda: _write_conf(self._root, conf))
            root = await run_to_end(lambda: _shorten(self._root))
            self.uri = f"qemu:///embed?root={root}"
            await run_to_end(lambda: forget_the_dead(self._root / "run" / "qemu", _runs))
            # libvirt asks QEMU what it can do; killed meanwhile, it leaves that QEMU behind.
            await self._runner.end_strays(f"-qmp unix:{root}/lib/qemu/qmp-")
        self._open = await self.call(lambda: binding.open(self.uri))

    def ran_as_root(self) -> bool:
        """Whether a libvirt of our own last ran guests as root. Blocking."""
        conf = self._root / _CONF
        return self.is_own and conf.exists() and named_root(conf)

    async def close(self) -> None:
        """Disconnect; guests go on."""
        if self._open is not None:
            await self.call(self._open.close)
            self._open = None
        self._threads.shutdown(wait=False)

    def remove_log(self, server_id: str) -> None:
        """Remove what our own libvirt wrote about a guest; a daemon's logs are the machine's."""
        name = f"{NAME_PREFIX}{server_id}"
        # Each of its shares has a program of its own, which writes one, too.
        for pattern in (f"{name}.log", f"{name}-*.log"):
            for log_file in (self._root / "log" / "qemu").glob(pattern):
                log_file.unlink(missing_ok=True)

    @property
    def memory_directory(self) -> Path:
        """Where libvirt keeps the memory of suspended guests."""
        is_own = self.uri.startswith("qemu:///embed")
        return (self._root / "lib" if is_own else Path("/var/lib/libvirt")) / "qemu" / "save"

    @property
    def handle(self) -> Any:
        """The object of libvirt itself (virConnect)."""
        return self._open

    async def call(self, fn: Callable[[], T]) -> T:
        """Run blocking calls in a thread; libvirt's errors come out as one of the nine kinds."""
        return await run_to_end(guarded(fn), self._threads)


def guarded(fn: Callable[[], T]) -> Callable[[], T]:
    """Return the same as `fn` with libvirt's errors as one of the nine kinds."""

    def run() -> T:
        try:
            return fn()
        except libvirt.libvirtError as error:
            raise translate(error) from error

    return run


def translate(error: libvirt.libvirtError) -> MooringError:
    """Return libvirt's error as one of the nine kinds."""
    said = str(error)
    code = error.get_error_code()
    if code == libvirt.VIR_ERR_NO_DOMAIN:
        return NotFound("The host has no such guest.", private=said)
    if "Failed to get" in said and "lock" in said:
        return image_in_use(said)
    if "Permission denied" in said:
        return Unavailable(_NOT_ALLOWED, private=said, code=code)
    for words, public in _NO_ROOM.items():
        if words in said:
            return NoCapacity(public, private=said)
    return Unavailable(
        "libvirt refused; the guest is as the host shows it now. Try again; if it stays so, the "
        "agent's log says why.",
        private=said,
        code=code,
    )


def _shorten(root: Path) -> Path:
    """Return a path for libvirt's root that leaves room for the names of QEMU's sockets below.

    The kernel takes 107 bytes. A longer directory gets a link of a name made from its own. Raises
    Unavailable where there is no place for one.
    """
    if len(os.fsencode(root)) <= _ROOT_BYTES:
        return root
    user = os.geteuid()
    runtime = Path("/run") if user == 0 else Path(f"/run/user/{user}")
    if not os.access(runtime, os.W_OK):
        raise Unavailable(
            f"The path {root} is too long for QEMU's sockets; {_ROOT_BYTES} bytes fit. Choose a "
            "shorter state directory."
        )
    for link in runtime.glob("mooring-*"):
        if link.is_symlink() and not link.exists():
            link.unlink(missing_ok=True)
    link = runtime / f"mooring-{hashlib.sha256(os.fsencode(root)).hexdigest()[:12]}"
    if not link.is_symlink() or link.readlink() != root:
        link.unlink(missing_ok=True)
        link.symlink_to(root)
    return link


def forget_the_dead(directory: Path, runs: Callable[[str], bool]) -> None:
    """Remove libvirt's notes of guests whose QEMU is not there: `runs` tells it by their names.

    A libvirt that is killed just before QEMU starts leaves a note of a running guest. The next one
    would wait for that guest's answer, with the guest locked, for as long as it lives.
    """
    for note in directory.glob(f"{NAME_PREFIX}*.xml"):
        if not runs(note.stem):
            log.info("forgetting a guest that never started", domain=note.stem)
            for path in (note, note.with_suffix(".pid"), note.with_suffix(".xml.new")):
                path.unlink(missing_ok=True)


def _runs(name: str) -> bool:
    return bool(find_processes(f"guest={name},"))


def check_user() -> None:
    """Raise Unavailable without the user whom libvirt wants to know before it opens as root."""
    if os.geteuid() != 0:
        return
    if not any(map(is_there, EMULATORS)):
        raise Unavailable(
            f"The system user {EMULATOR} is missing, and libvirt does not open without it; add it "
            f"with: useradd --system --shell /usr/sbin/nologin {EMULATOR}"
        )


def _write_conf(root: Path, text: str) -> None:
    conf = root / _CONF
    conf.parent.mkdir(parents=True, exist_ok=True)
    conf.write_text(text)


@cache
def _run_event_loop() -> None:
    """Run libvirt's event loop in a thread, once per process and before the first open."""
    # libvirt would print every error to standard error, also those that are expected.
    binding.registerErrorHandler(_keep_quiet, None)
    libvirt.virEventRegisterDefaultImpl()

    threading.Thread(target=run_events, name="libvirt-events", daemon=True).start()


def run_events(
    run_once: Callable[[], object] = binding.virEventRunDefaultImpl,
    pause: Callable[[float], object] = time.sleep,
) -> None:
    """Hear what libvirt tells, for ever; a round that fails ends nothing."""
    while True:
        try:
            run_once()
        except libvirt.libvirtError as error:
            log.warning("libvirt's events are not heard just now", reason=str(error))
            pause(_AGAIN_S)


def _keep_quiet(context: None, error: list[Any]) -> None:
    del context, error
