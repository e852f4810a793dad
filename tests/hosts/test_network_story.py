"""A real guest with a network reaches nothing of its host: no loopback, no link-local address."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tests.hosts.real_cloud import RealCloud

pytestmark = pytest.mark.hosts
GATEWAY = "10.0.2.2"
"""What QEMU's network for users takes for the host's loopback."""
LINK_LOCAL = "169.254.77.77"
GREETING = b"host speaks\n"


@contextmanager
def greeting(address: str) -> Generator[int]:
    """Greet whoever connects to an address of this host; gives the port."""
    with socket.create_server((address, 0)) as server:

        def greet() -> None:
            while True:
                try:
                    caller, _ = server.accept()
                except OSError:
                    return
                with caller:
                    caller.sendall(GREETING)

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


@contextmanager
def link_local() -> Generator[str]:
    """Give this host a link-local address, as root."""
    if os.geteuid() != 0:
        pytest.skip("only root can give this machine a link-local address")
    change = ("ip", "address")
    subprocess.run([*change, "add", f"{LINK_LOCAL}/32", "dev", "lo"], check=True)
    try:
        yield LINK_LOCAL
    finally:
        subprocess.run([*change, "del", f"{LINK_LOCAL}/32", "dev", "lo"], check=True)


def test_a_real_guest_reaches_no_loopback_and_no_link_local_address_of_its_host(
    cloud: RealCloud, image: str
) -> None:
    with greeting("127.0.0.1") as port, link_local() as address, greeting(address) as other:
        cloud_port = int(cloud.process.ready.rpartition(":")[2])
        tried = [(GATEWAY, port), (GATEWAY, cloud_port), (address, other)]
        lines = ["# reach", *(f"{host} {number}" for host, number in tried), ""]
        guest = cloud.boot(
            "enclosed",
            imageRef=image,
            networks="auto",
            config_drive=True,
            user_data=base64.b64encode("\n".join(lines).encode()).decode(),
        )
        guest.hear("has tried all addresses")
        for host, number in tried:
            heard = guest.hear(f"reaches {host} {number} and hears '(.*)'")[1]
            assert heard == "", f"the guest reached {host}:{number}"
    cloud.delete(guest.path)
