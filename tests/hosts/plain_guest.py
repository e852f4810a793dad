"""The test guest under a QEMU of its own, with nothing of Mooring between."""

from __future__ import annotations

import json
import os
import selectors
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MACHINE = "0e5ce1ad-7d2f-4f47-9d3a-2f0c6a1b9e11"
HEARS_S, POLL_S = 240.0, 0.1


class Guest:
    """One running QEMU: what it says on its serial console, and its QMP socket."""

    def __init__(self, process: subprocess.Popen[bytes], control: Path, first: str) -> None:
        self.process = process
        self.said = ""
        self._readable = selectors.DefaultSelector()
        assert process.stdout is not None
        self._console = process.stdout.fileno()
        self._readable.register(self._console, selectors.EVENT_READ)
        # QEMU makes its socket before the guest's first instruction, so before its first word.
        self.hear(first)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(20)
        self._socket.connect(str(control))
        self._answers = self._socket.makefile("rb")
        self._answers.readline()
        self.order("qmp_capabilities")

    def hear(self, text: str, timeout_s: float = HEARS_S, *, behind: int = 0) -> None:
        """Wait until the guest has said so, behind a place in what it said."""
        until = time.monotonic() + timeout_s
        while text not in self.said[behind:]:
            left = until - time.monotonic()
            assert left > 0, f"not said in {timeout_s} s: {text}; said: {self.said}"
            if self._readable.select(left):
                heard = os.read(self._console, 65536)
                assert heard, f"the guest ended before it said {text}; said: {self.said}"
                self.said += heard.decode(errors="replace")

    def order(self, command: str, **arguments: Any) -> Any:
        """Give QEMU an order, and return its answer, which must not be an error."""
        self._socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
        answer: dict[str, Any] = {}
        while "return" not in answer:
            answer = json.loads(self._answers.readline())
            assert "error" not in answer, answer
        return answer["return"]

    def plug(self, name: str, file: Path) -> None:
        """Give the guest a raw disk while it runs."""
        self.order("blockdev-add", **{"node-name": name, "driver": "raw", "file": _file(file)})
        self.order(
            "device_add", driver="virtio-blk-pci", id=name, drive=name, bus="p1", serial=name
        )

    def save(self, state: Path) -> None:
        """Write down all that the guest is, and end it: `booted` goes on with it from there."""
        self.order("migrate", uri=f"exec:cat >{state}")
        until = time.monotonic() + HEARS_S
        while self.order("query-migrate").get("status") != "completed":
            assert time.monotonic() < until, self.order("query-migrate")
            time.sleep(POLL_S)
        self.order("quit")
        self.process.wait(HEARS_S)

    def close(self) -> None:
        self._answers.close()
        self._socket.close()
        self._readable.close()


def disk_options(name: str, file: Path, disk_format: str) -> list[str]:
    """Return what gives a guest a disk when it starts."""
    return [
        *("-drive", f"file={file},format={disk_format},if=none,id={name}"),
        *("-device", f"virtio-blk-pci,drive={name},serial={name}"),
    ]


def _file(path: Path) -> dict[str, str]:
    return {"driver": "file", "filename": str(path)}


@contextmanager
def booted(
    disk: Path, control: Path, *options: str, first: str = "mooring-guest: up"
) -> Generator[Guest]:
    """A guest on this disk, in software emulation, so that any machine can run it.

    `control` is the socket to make; `first` is what the guest says when it can be spoken to.
    """
    # fmt: off
    command = [
        "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-machine", "q35", "-m", "192",
        "-display", "none", "-no-reboot", "-uuid", MACHINE, "-nic", "none",
        "-serial", "stdio", "-qmp", f"unix:{control},server=on,wait=off",
        "-device", "pcie-root-port,id=p1,slot=1",
        "-drive", f"file={disk},format=qcow2,if=none,id=root",
        "-device", "virtio-blk-pci,drive=root,serial=root,bootindex=1",
        *options,
    ]
    # fmt: on
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        try:
            guest = Guest(process, control, first)
            yield guest
            guest.close()
        finally:
            process.kill()
