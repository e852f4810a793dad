"""The one interface of a network namespace that has just been made."""

from __future__ import annotations

import fcntl
import socket
import struct

_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1
_REQUEST = "16sh"


def raise_loopback() -> None:
    """Let this network's one interface be up, which in a new network it is not (netdevice(7))."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack(_REQUEST, b"lo", 0).ljust(40, b"\0")
        answer = fcntl.ioctl(any_socket, _GET_FLAGS, asked)
        _, flags = struct.unpack_from(_REQUEST, answer)
        wanted = struct.pack(_REQUEST, b"lo", flags | _UP).ljust(40, b"\0")
        fcntl.ioctl(any_socket, _SET_FLAGS, wanted)
