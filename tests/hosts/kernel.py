"""A kernel that can do what this machine's may not, NFS for one, with this machine's own files.

`scripts/build_kernel` makes it. It runs as a guest of a plain QEMU, sees all files of the machine
but can change none, and runs one script there, whose words and status come back.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from shutil import which

from msgspec import Struct

CHECKOUT = Path(__file__).parents[2]
BUILT = CHECKOUT / "build" / "kernel"
VIRTIOFSD = Path("/usr/lib/qemu/virtiofsd")
SERVES_S, POLL_S = 60.0, 0.05
MEMORY_MIB = 1024
COMMAND_LINE = "console=ttyS0 quiet panic=1 mitigations=off nokaslr"


class Report(Struct, frozen=True):
    """How a script in the kernel ended (None: it did not), and all that it said."""

    status: int | None
    said: str


def why_no_kernel() -> str:
    """Return what keeps this machine from running such a kernel, "" when nothing does."""
    if os.geteuid() != 0:
        return "only root can lend the machine's files to a guest"
    if which("qemu-system-x86_64") is None or not VIRTIOFSD.exists():
        return "QEMU with virtiofsd is not installed"
    if find_spec("libvirt") is None:
        return "this machine runs no guests: libvirt's Python binding is not installed"
    building = [CHECKOUT / "scripts" / "build_kernel"]
    built = subprocess.run(building, capture_output=True, text=True, check=False)
    return built.stderr.strip() if built.returncode else ""


def run_in_kernel(script: Path, directory: Path, *, disk: Path, limit_s: float) -> Report:
    """Run a shell script in a new kernel, which has `disk` (raw) as /dev/vdb.

    `directory` takes sockets and logs. The kernel has ended when this returns, whatever came.
    """
    console, said = directory / "kernel.console", directory / "kernel.said"
    with _files_served(directory) as socket:
        # fmt: off
        command = [
            "qemu-system-x86_64", "-accel", "tcg,thread=multi,tb-size=256", "-machine", "q35",
            "-cpu", "max", "-smp", "2", "-m", str(MEMORY_MIB), "-numa", "node,memdev=memory",
            "-object", f"memory-backend-memfd,id=memory,size={MEMORY_MIB}M,share=on",
            "-nodefaults", "-display", "none", "-no-reboot",
            "-serial", f"file:{console}", "-serial", f"file:{said}",
            "-chardev", f"socket,id=files,path={socket}",
            "-device", "vhost-user-fs-pci,chardev=files,tag=machine",
            "-drive", f"file={BUILT / 'tools.img'},format=raw,if=virtio,readonly=on",
            "-drive", f"file={disk},format=raw,if=virtio,cache=unsafe",
            "-kernel", str(BUILT / "vmlinuz"), "-initrd", str(BUILT / "initrd"),
            "-append", f"{COMMAND_LINE} mooring.script={script}",
        ]
        # fmt: on
        with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
            try:
                process.wait(limit_s)
            except subprocess.TimeoutExpired:
                process.kill()
    words = said.read_text(errors="replace")
    status = re.search(r"^kernel: status (\d+)$", words, re.MULTILINE)
    return Report(int(status[1]) if status else None, words + console.read_text(errors="replace"))


def make_disk(path: Path, size_gib: int) -> Path:
    """Make an empty ext4 file system in a sparse file, without mounting anything."""
    with path.open("wb") as file:
        file.truncate(size_gib << 30)
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", str(path)], check=True, env=environment)
    return path


@contextmanager
def _files_served(directory: Path) -> Generator[Path]:
    """Lend the machine's files to a guest; it is the guest that mounts them read-only."""
    socket = directory / "files.sock"
    options = ["-o", "source=/", "-o", "cache=always", "-o", "sandbox=chroot"]
    with (directory / "virtiofsd.log").open("wb") as log:
        command = [VIRTIOFSD, f"--socket-path={socket}", *options]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log) as process:
            try:
                until = time.monotonic() + SERVES_S
                while not socket.exists():
                    assert time.monotonic() < until, (directory / "virtiofsd.log").read_text()
                    time.sleep(POLL_S)
                yield socket
            finally:
                process.kill()
