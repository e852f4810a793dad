"""Storages that real hosts mount shares of, and what these say of shares by commands of their own.

Each is in the network of a lab, at a place of its own there.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.agent.mounts import read_mount_points
from mooring.lab.namespaces import Namespace
from tests.agent.ceph_cluster import FILE_SYSTEM, POOL_CLIENT, CephCluster, open_cluster
from tests.agent.hosts import CHECKOUT
from tests.agent.nfs_server import NfsServer, why_no_nfs_server

GROUP = "mooring"
_CEPH = f"""
[share_pools.cephfs]
conf = "{{conf}}"
client = "{POOL_CLIENT}"
filesystem = "{FILE_SYSTEM}"
group = "{GROUP}"
"""
_NFS = """path = "{path}"
[share_pools.nfs]
address = "{address}"
bus = "{bus}"
"""
_MOUNT = """#!/bin/sh
# mount -t nfs -o OPTIONS EXPORT DIRECTORY, for a kernel without NFS
[ "$1 $2" = "-t nfs" ] || exec /usr/bin/mount "$@"
unset MOORING_HELPER_OF  # like the kernel's mounts it outlives the agent
export PYTHONPATH={checkout}/src:{checkout}
cd / && exec {python} -m tests.hosts.nfs_client "$5" "$6"
"""


class CephStore:
    """A Ceph of one node. Implements `Storage`."""

    protocol, share_type = "CEPHFS", "cephfs"
    programs = ""

    def __init__(self, cluster: CephCluster) -> None:
        self._cluster = cluster
        self.options = _CEPH.format(conf=cluster.config)

    def clients(self, share: str) -> set[str]:
        """Return the cephx ids that have a right on the share's subvolume."""
        listed: list[dict[str, str]] = json.loads(self._ask("authorized_list", share))
        return {client for one in listed for client in one}

    def users(self, share: str) -> set[str]:
        """Return from where clients have the subvolume mounted, as the metadata server knows."""
        told = self._cluster.ask("tell", "mds.a", "session", "ls")
        sessions: list[dict[str, Any]] = json.loads(told)
        root = self._ask("getpath", share)
        # `inst` is a client with its number and its address: client.4213 10.77.0.1:0/2781
        here = (one["inst"] for one in sessions if one["client_metadata"].get("root") == root)
        return {inst.split()[1].partition(":")[0] for inst in here}

    def lines(self, share: str) -> list[str]:
        """Read what guests have written by a mount of the administrator's own."""
        with tempfile.TemporaryDirectory() as point:
            self._cluster.mount(self._ask("getpath", share), Path(point))
            try:
                return (Path(point) / "lines").read_text().split()
            finally:
                subprocess.run(["umount", "--", point], check=True)

    def _ask(self, verb: str, share: str) -> str:
        where = (FILE_SYSTEM, share, "--group_name", GROUP)
        return self._cluster.ask("fs", "subvolume", verb, *where).strip()


class GaneshaStore:
    """NFS-Ganesha. Implements `Storage`: a client that is let in lists a share, others do not."""

    protocol, share_type = "NFS", "nfs"

    def __init__(self, server: NfsServer, clients: Sequence[Namespace]) -> None:
        self._server, self._clients = server, clients
        self.programs = str(server.directory / "bin")
        self.options = _NFS.format(
            path=server.directory / "shares", address=server.address, bus=server.bus
        )

    def clients(self, share: str) -> set[str]:
        """Return from where the share can be listed: each host tries, whether it has a rule."""
        return {one.address for one in self._clients if self._lists(one, share)}

    def users(self, share: str) -> None:
        """Say nothing: what a client of NFS 4.0 has mounted its server does not know."""
        del share

    def lines(self, share: str) -> list[str]:
        """Read what guests have written from a host that is let in."""
        reader = next(one for one in self._clients if self._lists(one, share))
        done = self._run(reader, "nfs-cat", share, "/lines")
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    def _lists(self, client: Namespace, share: str) -> bool:
        done = self._run(client, "nfs-ls", share)
        assert done.returncode == 0 or "NFS4ERR_NOENT" in done.stderr, done.stderr
        return done.returncode == 0

    def _run(
        self, client: Namespace, program: str, share: str, path: str = ""
    ) -> subprocess.CompletedProcess[str]:
        url = f"nfs://{self._server.address}/shares/{share}{path}?version=4"
        words = ("nsenter", f"--net={client.file}", program, url)
        return subprocess.run(words, capture_output=True, text=True, check=False)


@contextmanager
def open_ceph(place: Namespace, clients: Sequence[Namespace]) -> Generator[CephStore]:
    """Start a Ceph; skipped where the machine cannot."""
    del clients
    with open_cluster(place.address, str(place.file)) as cluster:
        yield CephStore(cluster)


@contextmanager
def open_ganesha(place: Namespace, clients: Sequence[Namespace]) -> Generator[GaneshaStore]:
    """Start a Ganesha, and have a client for a kernel without NFS; skipped where it cannot be."""
    if reason := why_no_nfs_server():
        pytest.skip(reason)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mooring-nfs")))
        stack.callback(_unmount_below, directory)
        index = directory / "shares" / "exports" / "index.conf"
        server = NfsServer(directory, index, place.name, place.address)
        stack.callback(lambda: asyncio.run(server.close()))
        asyncio.run(server.start())
        programs = directory / "bin"
        programs.mkdir()
        for name in ("mount", "mount.nfs"):
            program = programs / name
            program.write_text(_MOUNT.format(checkout=CHECKOUT, python=sys.executable))
            program.chmod(0o755)
        yield GaneshaStore(server, clients)


def _unmount_below(directory: Path) -> None:
    """Unmount the shares that a test has left which failed."""
    for point in read_mount_points(Path("/proc/self/mountinfo")):
        if point.is_relative_to(directory):
            subprocess.run(["umount", "--", str(point)], check=True)
