"""Whether this host's libvirt daemon lets in those who send guests over TLS.

The daemon is its operator's: an agent that wants TLS says nothing of whether the daemon was told.
So the host asks it as another host would, before anything is begun for a guest.

Source: libvirt's remote.html (port 16514, "Generating TLS certificates"); the byte with which its
daemon says that it takes the caller's certificate is in src/rpc/virnetserverclient.c.
"""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

from mooring.errors import Conflict

PORT = 16514
"""Where libvirt's daemon listens with `listen_tls = 1`, unless told otherwise."""
_WAIT_S = 5.0
_TAKEN = b"\x01"


def check_daemon(name: str, address: str, directory: Path) -> None:
    """Raise Conflict unless the daemon of this host answers with its certificate. Blocking.

    `directory` has what the host shows to other hosts.
    """
    try:
        found = _knock(address, directory.resolve())
    except (OSError, ValueError) as error:  # The latter for what no address can be.
        reason = str(error)
    else:
        if found == _TAKEN:
            return
        reason = "it turns away who shows a certificate of this cloud"
    raise Conflict(
        f"Host {name} takes running guests over TLS only, and its libvirt daemon does not answer "
        f"so at {address}, port {PORT}: {reason}. On that host, tell the daemon and QEMU of the "
        f"certificates in {directory} and start the daemon anew, as docs/hosts.md says (Over TLS). "
        "With move_tls = false on all hosts guests go in the clear."
    )


def _knock(address: str, directory: Path) -> bytes:
    """Return what the daemon says first to a host of its cloud."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(directory / "cacert.pem")
    context.load_cert_chain(directory / "clientcert.pem", directory / "clientkey.pem")
    with (
        socket.create_connection((address, PORT), timeout=_WAIT_S) as line,
        context.wrap_socket(line, server_hostname=address) as talk,
    ):
        return talk.recv(1)
