"""The test guest boots, tells what disks it sees, keeps markers, heeds the power button."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.hosts

CHECKOUT = Path(__file__).parents[2]
TOOLS = ("qemu-system-x86_64", "qemu-img", "syslinux", "mformat", "busybox", "cpio", "apt-get")
MACHINE = "0e5ce1ad-7d2f-4f47-9d3a-2f0c6a1b9e11"
GIB = 1 << 30


@pytest.fixture(scope="module")
def image() -> Path:
    """The guest's disk, made when needed."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"no real guests here: {', '.join(missing)} missing; run scripts/setup as root")
    subprocess.run([CHECKOUT / "scripts" / "build_guest"], check=True)
    return CHECKOUT / "build" / "guest" / "guest.qcow2"


class Guest:
    """One running QEMU: what it says on its serial console, and its QMP socket."""

    def __init__(self, process: subprocess.Popen[bytes], control: Path) -> None:
        self.process = process
        self.said = ""
        self._readable = selectors.DefaultSelector()
        assert process.stdout is not None
        self._console = process.stdout.fileno()
        self._readable.register(self._console, selectors.EVENT_READ)
        # QEMU makes its socket before the guest's first instruction, so before its first word.
        self.hear("mooring-guest: up")
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(120)
        self._socket.connect(str(control))
        self._answers = self._socket.makefile("rb")
        self._answers.readline()
        self.order("qmp_capabilities")

    def hear(self, text: str, timeout_s: float = 240) -> None:
        """Wait until the guest has said so."""
        until = time.monotonic() + timeout_s
        while text not in self.said:
            left = until - time.monotonic()
            assert left > 0, f"not said in {timeout_s} s: {text}; said: {self.said}"
            if self._readable.select(left):
                heard = os.read(self._console, 65536)
                assert heard, f"the guest ended before it said {text}; said: {self.said}"
                self.said += heard.decode(errors="replace")

    def order(self, command: str, **arguments: Any) -> None:
        """Give QEMU an order, and wait for its answer, which must not be an error."""
        self._socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
        answer: dict[str, Any] = {}
        while "return" not in answer:
            answer = json.loads(self._answers.readline())
            assert "error" not in answer, answer

    def plug(self, name: str, file: Path) -> None:
        self.order("blockdev-add", **{"node-name": name, "driver": "raw", "file": _file(file)})
        self.order(
            "device_add", driver="virtio-blk-pci", id=name, drive=name, bus="p1", serial=name
        )

    def close(self) -> None:
        self._answers.close()
        self._socket.close()
        self._readable.close()


def _file(path: Path) -> dict[str, str]:
    return {"driver": "file", "filename": str(path)}


@contextmanager
def booted(disk: Path, control: Path) -> Generator[Guest]:
    """A guest on this disk, in software emulation, so that any machine can run it."""
    # fmt: off
    command = [
        "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-machine", "q35", "-m", "192",
        "-display", "none", "-no-reboot", "-uuid", MACHINE, "-nic", "none",
        "-serial", "stdio", "-qmp", f"unix:{control},server=on,wait=off",
        "-device", "pcie-root-port,id=p1,slot=1",
        "-drive", f"file={disk},format=qcow2,if=none,id=root",
        "-device", "virtio-blk-pci,drive=root,serial=root,bootindex=1",
    ]
    # fmt: on
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        try:
            guest = Guest(process, control)
            yield guest
            guest.close()
        finally:
            process.kill()


def test_the_guest_sees_disks_come_grow_and_go_and_heeds_the_power_button(
    image: Path, tmp_path: Path
) -> None:
    disk, data = tmp_path / "root.qcow2", tmp_path / "data.raw"
    shutil.copyfile(image, disk)
    with data.open("wb") as file:
        file.truncate(GIB)
    with booted(disk, tmp_path / "first") as guest:
        guest.hear(f"mooring-guest: machine {MACHINE}")
        guest.hear("mooring-guest: image first")
        guest.hear("mooring-guest: disk vda 24117248 bytes serial=root")
        guest.hear(f"mooring-guest: boot marker written {MACHINE}")
        guest.plug("data", data)
        guest.hear(f"mooring-guest: disk vdb {GIB} bytes serial=data")
        guest.hear(f"mooring-guest: vdb marker written {MACHINE}")
        guest.order("block_resize", **{"node-name": "data", "size": 2 * GIB})
        guest.hear(f"mooring-guest: disk vdb {2 * GIB} bytes serial=data")
        guest.order("device_del", id="data")
        guest.hear("mooring-guest: disk vdb gone")
        guest.order("system_powerdown")
        guest.process.wait(timeout=120)
    assert data.read_bytes()[:128].rstrip(b"\0") == f"MOORING-MARKER:{MACHINE}".encode()
    with booted(disk, tmp_path / "second") as guest:
        guest.hear(f"mooring-guest: boot marker read {MACHINE}")
        guest.plug("again", data)
        guest.hear(f"mooring-guest: vdb marker read {MACHINE}")
