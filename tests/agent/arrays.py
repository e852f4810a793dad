"""Storage arrays that answer as their documented APIs do, as far as Mooring asks them.

They are servers in a thread of the test. Files that they clone lie in the directory of a share.
"""

from __future__ import annotations

import base64
import datetime as dt
import http.server
import ipaddress
import shutil
import ssl
import threading
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mooring.agent.qemu_img import GIB

LOGIN, PASSWORD = "operator", "right horse"


class StandInArray:
    """One array: what was asked of it, and what it is told to do wrong."""

    def __init__(self, share: Path, certificate: Path | None = None) -> None:
        self.share = share
        self.asked: list[str] = []
        self.refuses_clones = False
        self.forgets = ""
        """A field that it leaves out of what it tells, "" for none."""
        self.goes_on = threading.Event()
        """Cleared, it holds clones back."""
        self.goes_on.set()
        self.targets: list[str] = []
        """The files that clones were asked for."""
        self.total_bytes, self.free_bytes = 500 * GIB, 300 * GIB
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.server_address[1]

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        """Return status and body for a request that named the right login."""
        raise AssertionError(f"{method} {path} {query} {body}")

    def lets_in(self, headers: Any) -> bool:
        """Return whether the request is of somebody known."""
        return headers.get("Authorization", headers.get("authorization")) == _basic()

    def greeting(self, path: str) -> dict[str, str]:
        """Return headers of an answer that is no refusal."""
        return {}

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        array = self

        class Handler(http.server.BaseHTTPRequestHandler):
            """Hands each request to the array."""

            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                parts = urlsplit(self.path)
                array.asked.append(f"{self.command} {parts.path}")
                query = {key: values[0] for key, values in parse_qs(parts.query).items()}
                length = int(self.headers.get("Content-Length", 0))
                body = msgspec.json.decode(self.rfile.read(length)) if length else None
                status, told = 401, {"error": {"message": "not authorized", "code": "6691623"}}
                if array.lets_in(self.headers):
                    status, told = array.answer(self.command, parts.path, query, body)
                data = msgspec.json.encode(_without(told, array.forgets))
                self.send_response(status)
                if status == 200:
                    for key, value in array.greeting(parts.path).items():
                        self.send_header(key, value)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = _serve  # noqa: N815 (the library's names)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the library's name)
                """Say nothing."""

        return Handler


class StandInOntap(StandInArray):
    """An ONTAP cluster whose storage VM `svm1` has one volume at the junction `/volumes`."""

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        if path == "/api/storage/volumes":
            junctions = query["nas.path"].split("|")
            held = query["svm.name"] == "svm1" and "/volumes" in junctions
            records = [self._volume()] if held else []
            return 200, {"records": records, "num_records": len(records)}
        if path == "/api/storage/file/clone" and method == "POST":
            assert body["volume"]["uuid"] == "uuid-1"
            self.targets.append(body["destination_path"])
            self.goes_on.wait()
            if self.refuses_clones:
                return 500, {"error": {"message": "clones are off", "code": "13565952"}}
            shutil.copy(self.share / body["source_path"], self.share / body["destination_path"])
            return 202, {"job": {"uuid": "job-1"}}
        if path == "/api/cluster/jobs/job-1":
            return 200, {"uuid": "job-1", "state": "success"}
        return 404, {"error": {"message": "entry doesn't exist", "code": "4"}}

    def _volume(self) -> dict[str, Any]:
        return {
            "uuid": "uuid-1",
            "name": "vol1",
            "nas": {"path": "/volumes"},
            "space": {"size": self.total_bytes, "available": self.free_bytes},
        }


class StandInPowerstore(StandInArray):
    """A PowerStore with the NFS export `volumes` of one file system."""

    def lets_in(self, headers: Any) -> bool:
        return super().lets_in(headers) or (
            headers.get("DELL-EMC-TOKEN") == "token-1"
            and headers.get("Cookie") == "auth_cookie=cookie-1"
        )

    def greeting(self, path: str) -> dict[str, str]:
        if path != "/api/rest/login_session":
            return {}
        return {"DELL-EMC-TOKEN": "token-1", "Set-Cookie": "auth_cookie=cookie-1; Path=/"}

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        if path == "/api/rest/login_session":
            return 200, [{"id": "1", "user": LOGIN, "idle_timeout": 3600}]
        if path == "/api/rest/software_installed":
            return 200, [{"release_version": "4.1.0.0"}]
        if path == "/api/rest/nfs_export":
            held = [{"id": "e1", "name": "volumes", "file_system": {"id": "fs1", "name": "fs"}}]
            return 200, held if query["name"] == "eq.volumes" else []
        if path == "/api/rest/file_system/fs1":
            used = self.total_bytes - self.free_bytes
            return 200, {"id": "fs1", "size_total": self.total_bytes, "size_used": used}
        return 404, {"messages": [{"code": "0xE04040010001", "severity": "Error"}]}


def make_certificate(directory: Path) -> Path:
    """Return a file with a key and a certificate of its own for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "array")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    file = directory / "array.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return file


def _without(told: Any, field: str) -> Any:
    if isinstance(told, dict):
        fields = cast("dict[str, Any]", told)
        return {key: _without(value, field) for key, value in fields.items() if key != field}
    if isinstance(told, list):
        return [_without(one, field) for one in cast("list[Any]", told)]
    return told


def _basic() -> str:
    return "Basic " + base64.b64encode(f"{LOGIN}:{PASSWORD}".encode()).decode()
