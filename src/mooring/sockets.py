"""The sockets a process listens on, opened before anything else so that a mistake is told at once."""

from __future__ import annotations

import errno
import socket

from mooring.errors import Invalid, Unavailable

_BACKLOG = 512
_LAST_PORT = 65535


def parse_listen(listen: str) -> tuple[str, int]:
    """Read `ADDRESS:PORT`; an IPv6 address stands in brackets. Raises Invalid."""
    address, colon, port = listen.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > _LAST_PORT:
        message = f"'{listen}' is no address to listen on; write ADDRESS:PORT, as 127.0.0.1:8470."
        raise Invalid(message)
    return address.removeprefix("[").removesuffix("]"), int(port)


def open_listener(listen: str) -> socket.socket:
    """Return a TCP socket that listens. Raises Invalid, or Unavailable when the port is taken."""
    address, port = parse_listen(listen)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise _explain(listen, error) from error
    listener.setblocking(False)
    return listener


def public_url(listener: socket.socket) -> str:
    """Return the URL under which a client on this machine reaches the socket."""
    address, port = listener.getsockname()[:2]
    if address in ("0.0.0.0", "::"):  # noqa: S104  (compared, not bound)
        address = "127.0.0.1"
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{port}"


def _explain(listen: str, error: OSError) -> Exception:
    if error.errno == errno.EADDRINUSE:
        message = (
            f"{listen} is in use. Stop what listens there, or choose another with --listen "
            "ADDRESS:PORT (port 0 takes any free one)."
        )
        return Unavailable(message)
    if error.errno == errno.EACCES:
        return Invalid(f"Only root may listen on {listen}; choose a port from 1024 on.")
    return Invalid(f"{listen} cannot be listened on: {error.strerror or error}.")
