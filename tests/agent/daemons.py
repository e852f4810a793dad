"""The libvirt daemons of the hosts that the laboratory makes, as tests speak to them."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def open_daemon(host: Path) -> Generator[Any]:
    """Connect to the daemon of the host with this directory; close the connection behind it.

    A socket's path has room for 107 bytes, which a test's own directory may fill.
    """
    binding: Any = importlib.import_module("libvirt")
    with tempfile.TemporaryDirectory(prefix="mooring-daemon-") as short:
        link = Path(short, "host")
        link.symlink_to(host)
        uri = f"qemu+unix:///system?socket={link}/run/libvirt/libvirt-sock"
        connection = binding.open(uri)
        try:
            yield connection
        finally:
            connection.close()
