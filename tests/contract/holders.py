"""A process of QEMU that holds an image as a guest would."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path


@asynccontextmanager
async def held_by_qemu(path: Path, disk_format: str, *, read_only: bool) -> AsyncGenerator[None]:
    """Have a QEMU, which runs no guest, open a disk; it is ready when it has gone to the back."""
    pid_file = path.parent.parent / "qemu.pid"
    words = "qemu-system-x86_64 -S -nodefaults -display none -accel tcg -m 32 -daemonize"
    drive = (
        f"file={path},format={disk_format},if=none,id=d0,read-only={'on' if read_only else 'off'}"
    )
    device = ["-device", "virtio-blk-pci,drive=d0"]
    starting = await asyncio.create_subprocess_exec(
        *words.split(), "-pidfile", str(pid_file), "-drive", drive, *device
    )
    assert await starting.wait() == 0
    process = os.pidfd_open(int(pid_file.read_text()))
    try:
        yield
    finally:
        signal.pidfd_send_signal(process, signal.SIGKILL)
        # The last of its threads, and not the first, lets go of the file.
        ended, _, _ = await asyncio.to_thread(select.select, [process], [], [], 10)
        os.close(process)
        assert ended
