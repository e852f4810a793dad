"""A service that speaks S3 to test with: Ceph's, on a Ceph of one node, and a wire before it."""

from __future__ import annotations

import io
import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

import pytest
from msgspec.structs import replace

from mooring.volume.backups.stores.s3_access import S3Access
from tests.agent.ceph_cluster import CephCluster, open_cluster, why_no_ceph

if TYPE_CHECKING:
    from minio import Minio

Way = Literal["up", "down"]
BUCKET, ACCESS_KEY, SECRET_KEY = (
    "backups",
    "mooring-backups-1",
    "s3cret-of-the-tests-0123456789abcdef",
)
_START_S, _CHUNK = 90.0, 1 << 16


WITHOUT_LIBRARY = "the library for S3 is missing: run scripts/setup test"
"""Why tests are skipped where Python has not what a cloud needs with such a store alone."""


def has_library() -> bool:
    """Whether Python has the library for S3."""
    return find_spec("minio") is not None


def why_no_s3() -> str:
    """Return what keeps this machine from running it, "" when nothing does."""
    if not has_library():
        return WITHOUT_LIBRARY
    if shutil.which("radosgw") is None:
        return "radosgw is missing: run scripts/setup test"
    return why_no_ceph()


class Wire:
    """What stands between a store and its service, at a port of its own, and may be cut."""

    def __init__(self, port: int) -> None:
        self._port, self._cut = port, dict[Way, int]()
        self.passed: dict[Way, int] = {"up": 0, "down": 0}
        self._open: set[socket.socket] = set()
        self._is_away, self._pause_s = False, 0.0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, way: Way, after: int) -> None:
        """End every connection once so many more bytes have passed one way, until it is mended."""
        self._cut[way] = self.passed[way] + after

    def go_away(self) -> None:
        """End all connections, and each new one at once."""
        self._is_away = True
        self._end_all()

    def slow_down(self, pause_s: float) -> None:
        """Pass on a byte at a time, with pauses."""
        self._pause_s = pause_s

    def mend(self) -> None:
        """Pass everything on again."""
        self._cut.clear()
        self._is_away, self._pause_s = False, 0.0

    def close(self) -> None:
        """Stop for good."""
        self._listener.close()
        self._end_all()

    def _end_all(self) -> None:
        for one in list(self._open):
            self._end(one)

    def _end(self, *ends: socket.socket) -> None:
        for one in ends:
            self._open.discard(one)
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self._is_away:
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self._port))
            self._open |= {near, far}
            for way in (("up", near, far), ("down", far, near)):
                threading.Thread(target=self._pass_on, args=way, daemon=True).start()

    def _pass_on(self, way: Way, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(1 if self._pause_s else _CHUNK):
                self.passed[way] += len(data)
                if self.passed[way] > self._cut.get(way, self.passed[way]):
                    break
                threading.Event().wait(self._pause_s)
                target.sendall(data)
        except OSError:
            pass
        self._end(source, target)


class S3Service:
    """The service, with one bucket and one user."""

    def __init__(self, cluster: CephCluster) -> None:
        self._cluster = cluster
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self._daemon: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        key = self._cluster.home / "client.rgw.keyring"
        rights = ("mon", "allow rw", "osd", "allow rwx", "mgr", "allow rw")
        self._cluster.ask("auth", "get-or-create", "client.rgw", *rights, "-o", str(key))
        place = f"--rgw_frontends=beast endpoint=127.0.0.1:{self.port}"
        words = ("radosgw", "-f", "-n", "client.rgw", "--keyring", str(key), place)
        with (self._cluster.home / "log" / "radosgw.out").open("wb") as out:
            quiet = subprocess.DEVNULL
            self._daemon = subprocess.Popen(
                words, env=self._environment, stdin=quiet, stdout=out, stderr=out
            )
        self._await()
        keys = ("--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY)
        made = ("radosgw-admin", "user", "create", "--uid", "m", "--display-name", "m", *keys)
        subprocess.run(made, env=self._environment, check=True, capture_output=True)
        self.client().make_bucket(BUCKET)

    def stop(self) -> None:
        """End it."""
        if self._daemon is not None:
            self._daemon.kill()
            self._daemon.wait(60)

    def access(self, prefix: str, port: int, **other: str) -> S3Access:
        """Return how a store gets in, by a wire's port."""
        mine = S3Access(
            endpoint=f"http://127.0.0.1:{port}",
            bucket=BUCKET,
            access_key=ACCESS_KEY,
            secret_key=SECRET_KEY,
            prefix=prefix,
        )
        return replace(mine, **other)

    def client(self) -> Minio:
        """Return a client that asks it without a wire."""
        from minio import Minio

        place = f"127.0.0.1:{self.port}"
        return Minio(place, ACCESS_KEY, SECRET_KEY, secure=False, region="us-east-1")

    def put(self, name: str, data: bytes) -> None:
        """Make or replace an object."""
        self.client().put_object(BUCKET, name, io.BytesIO(data), len(data))

    def names(self, prefix: str) -> list[str]:
        """Return what objects there are."""
        found = self.client().list_objects(BUCKET, prefix, recursive=True)
        return [each.object_name or "" for each in found]

    def index(self) -> str:
        """Return all that it keeps of the bucket, parts of what was never finished included."""
        asked = ("radosgw-admin", "bucket", "list", "--bucket", BUCKET, "--max-entries", "100000")
        done = subprocess.run(
            asked, env=self._environment, check=True, capture_output=True, text=True
        )
        return done.stdout

    @property
    def _environment(self) -> dict[str, str]:
        return {"CEPH_CONF": str(self._cluster.config), "PATH": os.environ["PATH"]}

    def _await(self) -> None:
        deadline = time.monotonic() + _START_S
        while not self._answers():
            assert self._daemon is not None
            assert self._daemon.poll() is None, "radosgw has ended"
            assert time.monotonic() < deadline, "radosgw never answered"
            threading.Event().wait(0.2)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}", timeout=5):
                return True
        except OSError:
            return False


@contextmanager
def open_s3() -> Generator[S3Service]:
    """Start a service, once for many tests; skipped where the machine cannot."""
    if reason := why_no_s3():
        pytest.skip(reason)
    with open_cluster() as cluster:
        service = S3Service(cluster)
        try:
            service.start()
            yield service
        finally:
            service.stop()
