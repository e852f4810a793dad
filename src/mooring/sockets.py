"""The socket a process listens on, opened first so that a mistake is told at once."""

from __future__ import annotations

import errno
import socket

from mooring.errors import Invalid, MooringError, Unavailable

_BACKLOG = 512
LAST_PORT = 65535
PORTS = f"A port is 1 to {LAST_PORT}"
LISTENING_PORTS = f"{PORTS}, or 0 for any free one"
"""What is said of a port that is none, by whether somebody listens at it."""


def open_listener(
    address: str, port: int, *, given_by: str = "--listen ADDRESS:PORT"
) -> socket.socket:
    """Return a TCP socket that listens, at what an operator has `given_by` an option or a setting.

    Raises Invalid, or Unavailable when the port is taken.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # asyncio sends without delay only where the protocol is named: else an answer in two parts
    # waits 40 ms for the client's acknowledgement of the first.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise _explain(f"{address}:{port}", given_by, error) from error
    listener.setblocking(False)  # noqa: FBT003  (its only argument, and it takes no name)
    return listener


def public_url(listener: socket.socket, *, is_tls: bool = False) -> str:
    """Return the URL under which a client on this machine reaches the socket."""
    address, port = listener.getsockname()[:2]
    if address in ("0.0.0.0", "::"):  # noqa: S104  (compared, not bound)
        address = "127.0.0.1"
    host = f"[{address}]" if ":" in address else address
    return f"{'https' if is_tls else 'http'}://{host}:{port}"


def _explain(listen: str, given_by: str, error: OSError) -> MooringError:
    if error.errno == errno.EADDRINUSE:
        message = (
            f"{listen} is in use. Stop what listens there, or choose another with {given_by} (port "
            "0 takes any free one)."
        )
        return Unavailable(message)
    if error.errno == errno.EACCES:
        return Invalid(f"Only root may listen on {listen}; choose a port from 1024 on.")
    return Invalid(
        f"{listen} cannot be listened on: {error.strerror or error}. Choose an address of this "
        f"machine with {given_by}."
    )
