"""Stands in for what Tempest wants of guests and Mooring has not: addresses, and SSH into them.

Tempest's test of volume-backed rebuilds writes a file in the guest, by SSH, and looks for it after
the rebuild. Mooring gives guests no network. So this process stands between Tempest and the cloud:
it hands every request on, and adds an address of its own to the servers in the answers. At that
address it takes SSH with the server's own key, and keeps the guest's files where a guest would: in
the volume from which the server boots, here in its last sector.

It is run by Tempest's environment, which has an SSH library, in a network of its own, where port 22
is free: `python -m tests.tempest.guests STATE_DIR`.
"""

from __future__ import annotations

import http.client
import json
import re
import shlex
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.tempest.guest_files import GuestFiles, run_command
from tests.tempest.network import CLOUD_PORT, PORT, STAND_IN

# Not among the libraries of Mooring's own environment, whose type checker reads this file.
paramiko: Any = import_module("paramiko")

_SSH_PORT = 22
_ACCEPT_S = 30.0
_SERVER = re.compile(r"/compute/v2\.1/servers/([0-9a-f-]{36})(/action)?")
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


class Guest:
    """A server as the cloud last showed it, and the token of whoever asked."""

    def __init__(self, address: str) -> None:
        self.address, self.token = address, ""
        self.shown: dict[str, Any] = {}


class Cloud:
    """The cloud behind: where its volumes are, and the guests that have been seen."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._guests: dict[str, Guest] = {}
        self._lock = threading.Lock()

    def ask(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Send a request on, and return status, headers and body of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", CLOUD_PORT, timeout=120)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def see(self, server_id: str, shown: dict[str, Any], token: str) -> str:
        """Note how a server was shown, and return its address."""
        with self._lock:
            number = len(self._guests) + 1
            guest = self._guests.setdefault(
                server_id, Guest(f"127.77.{number // 250}.{number % 250 + 1}")
            )
            guest.shown, guest.token = guest.shown | shown, token
            return guest.address

    def at(self, address: str) -> Guest | None:
        """Return the guest with an address."""
        with self._lock:
            return next((one for one in self._guests.values() if one.address == address), None)

    def public_key(self, guest: Guest) -> str:
        """Return the key that the cloud shows for a server: "<type> <base64>..."."""
        path = f"/compute/v2.1/os-keypairs/{guest.shown.get('key_name')}"
        status, _, body = self.ask("GET", path, None, {"X-Auth-Token": guest.token})
        return json.loads(body)["keypair"]["public_key"] if status == 200 else ""

    def root_volume(self, guest: Guest) -> Path:
        """Return the file of the volume from which a guest boots."""
        volume_id = guest.shown["os-extended-volumes:volumes_attached"][0]["id"]
        [file] = (self._state_dir / "hosts").rglob(f"volume-{volume_id}")
        return file


class Login:
    """What the SSH library asks when somebody comes: the server's own key opens, nothing else."""

    def __init__(self, cloud: Cloud, guest: Guest) -> None:
        self._cloud, self._guest = cloud, guest
        self.command = b""
        self.asked = threading.Event()

    def get_banner(self) -> tuple[None, None]:
        return None, None

    def enable_auth_gssapi(self) -> bool:
        return False

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_none(self, username: str) -> int:
        return paramiko.AUTH_FAILED

    def check_auth_password(self, username: str, password: str) -> int:
        return paramiko.AUTH_FAILED

    def check_auth_publickey(self, username: str, key: Any) -> int:
        known = self._cloud.public_key(self._guest).split()[:2]
        is_known = known == [key.get_name(), key.get_base64()]
        return paramiko.AUTH_SUCCESSFUL if is_known else paramiko.AUTH_FAILED

    def check_channel_request(self, kind: str, channel_id: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: Any, command: bytes) -> bool:
        self.command = command
        self.asked.set()
        return True


def serve_login(cloud: Cloud, host_key: Any, connection: socket.socket) -> None:
    """Serve one SSH connection: at most one command, as Tempest does it."""
    guest = cloud.at(connection.getsockname()[0])
    if guest is None:
        connection.close()
        return
    transport = paramiko.Transport(connection)
    try:
        transport.add_server_key(host_key)
        login = Login(cloud, guest)
        transport.start_server(event=threading.Event(), server=login)
        channel = transport.accept(_ACCEPT_S)
        if channel is not None and login.asked.wait(_ACCEPT_S):
            words = shlex.split(login.command.decode())
            status, said = run_command(words, GuestFiles(cloud.root_volume(guest)))
            channel.sendall_stderr(said.encode())
            channel.send_exit_status(status)
            channel.close()
            # Who has the answer still closes its own end, which fails where nobody is left.
            transport.join(_ACCEPT_S)
    finally:
        transport.close()


def listen_for_logins(cloud: Cloud) -> None:
    """Take SSH connections at every address of this machine, from now on."""
    listener = socket.create_server(("", _SSH_PORT))
    host_key = paramiko.ECDSAKey.generate()

    def serve() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(
                target=serve_login, args=(cloud, host_key, connection), daemon=True
            ).start()

    threading.Thread(target=serve, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    """Hands requests on to the cloud."""

    protocol_version = "HTTP/1.1"
    cloud: Cloud

    def hand_on(self) -> None:
        """Hand this request on, and give the server in its answer an address."""
        length = self.headers.get("Content-Length")
        body = self.rfile.read(int(length)) if length else None
        kept = {
            name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP
        }
        kept |= {"Accept-Encoding": "identity"}
        status, headers, content = self.cloud.ask(self.command, self.path, body, kept)
        content = self._with_address(content)
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _with_address(self, content: bytes) -> bytes:
        found = _SERVER.fullmatch(self.path)
        if found is None or not content.startswith(b'{"server":'):
            return content
        body = json.loads(content)
        address = self.cloud.see(found[1], body["server"], self.headers.get("X-Auth-Token", ""))
        body["server"]["addresses"] = {STAND_IN: [{"version": 4, "addr": address}]}
        return json.dumps(body).encode()


for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
    setattr(Handler, f"do_{method}", Handler.hand_on)


def main() -> None:
    """Say `ready`, and serve until a signal ends it."""
    Handler.cloud = Cloud(Path(sys.argv[1]))
    listen_for_logins(Handler.cloud)
    with ThreadingHTTPServer(("127.0.0.1", PORT), Handler) as server:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        server.serve_forever()


if __name__ == "__main__":
    main()
