"""A Ceph of one node to test with: its daemons as plain processes, its data in memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fleet.members import free_port

FILE_SYSTEM = "cephfs"
_PROGRAMS = ("ceph", "ceph-mon", "ceph-mgr", "ceph-osd", "ceph-mds", "ceph-fuse", "monmaptool")
_START_S = 180.0
_CONFIG = """
[global]
fsid = {fsid}
mon_host = [v2:{address}:{port},v1:{address}:{old_port}]
public_addr = {address}
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
auth_allow_insecure_global_id_reclaim = false
keyring = {home}/$name.keyring
run_dir = {home}/run
admin_socket = {home}/run/$cluster-$name.$pid.asok
pid_file = {home}/run/$type.$id.pid
log_file = {home}/log/$name.log
mon_cluster_log_file = {home}/log/cluster.log
crash_dir = {home}/log
log_to_stderr = false
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 8
osd_pool_default_pgp_num = 8
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_warn_on_pool_no_redundancy = false
mon_data_avail_warn = 2
mon_data_avail_crit = 1
[mon]
mon_data = {home}/mon
[mgr]
mgr_data = {home}/mgr
mgr_initial_modules =
mgr_stats_period = 2
[osd]
osd_data = {home}/osd
osd_objectstore = memstore
memstore_device_bytes = 17179869184
osd_op_num_shards = 2
osd_op_num_threads_per_shard = 1
[mds]
mds_data = {home}/mds
mds_cache_memory_limit = 67108864
"""
_ALL = ("mon", "allow *", "osd", "allow *", "mgr", "allow *", "mds", "allow *")
_KEYS = {
    "client.admin": _ALL,
    "mgr.x": ("mon", "allow profile mgr", "osd", "allow *", "mds", "allow *"),
    "osd.0": ("mon", "allow profile osd", "osd", "allow *", "mgr", "allow profile osd"),
    "mds.a": (
        *("mon", "allow profile mds", "osd", "allow rwx"),
        *("mds", "allow *", "mgr", "allow profile mds"),
    ),
}
POOL_CLIENT = "mooring"
"""Who asks for shares, with the rights that docs/shares.md names."""
_POOL_RIGHTS = ("mon", 'allow r, allow command "auth get"', "mgr", "allow rw")


def why_no_ceph() -> str:
    """Return what keeps this machine from running Ceph, "" when nothing does."""
    if os.geteuid() != 0:
        return "a Ceph of one node is started by root"
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} are missing: run scripts/setup"
    return "" if Path("/dev/fuse").exists() else "this machine has no FUSE"


class CephCluster:
    """A cluster with one file system, at an address of this machine or of a network namespace."""

    def __init__(self, home: Path, address: str = "127.0.0.1", namespace: str = "") -> None:
        self.home, self.config, self.address = home, home / "ceph.conf", address
        self._inside = ("nsenter", f"--net={namespace}") if namespace else ()
        self._daemons: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Make the cluster, and wait until it makes subvolumes."""
        port, old_port = free_port(), free_port()
        fsid, osd = str(uuid.uuid4()), str(uuid.uuid4())
        for name in ("mon", "mgr", "osd", "mds", "run", "log"):
            (self.home / name).mkdir()
        written = _CONFIG.format(
            home=self.home, fsid=fsid, port=port, old_port=old_port, address=self.address
        )
        self.config.write_text(written, "ascii")
        addresses = f"[v2:{self.address}:{port},v1:{self.address}:{old_port}]"
        monmap, keyring = str(self.home / "monmap"), str(self.home / "mon.keyring")
        self._make_keys(keyring)
        made = ("--create", "--addv", "a", addresses, "--fsid", fsid, monmap)
        self._do("monmaptool", *made)
        self._do("ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap, "--keyring", keyring)
        self._run("ceph-mon", "-f", "-i", "a", "--keyring", str(self.home / "mon" / "keyring"))
        self._await("--connect-timeout", "5", "quorum_status", told="quorum")
        self._run("ceph-mgr", "-f", "-i", "x")
        self.ask("osd", "new", osd)
        self._do("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd)
        self._run("ceph-osd", "-f", "-i", "0")
        self._run("ceph-mds", "-f", "-i", "a")
        self._await("osd", "stat", told="1 up")
        for kind in ("meta", "data"):
            self.ask("osd", "pool", "create", f"{FILE_SYSTEM}_{kind}", "8")
        self.ask("fs", "new", FILE_SYSTEM, f"{FILE_SYSTEM}_meta", f"{FILE_SYSTEM}_data")
        self._await("mgr", "stat", told='"available": true')
        self._await("fs", "subvolume", "ls", FILE_SYSTEM, told="[]")
        # What a pool has is counted a moment after it was made.
        self._await("df", told=f"{FILE_SYSTEM}_data")
        client = f"client.{POOL_CLIENT}"
        key = self.home / f"{client}.keyring"
        self.ask("auth", "get-or-create", client, *_POOL_RIGHTS, "-o", str(key))

    def stop(self) -> None:
        """End all daemons."""
        for daemon in reversed(self._daemons):
            daemon.kill()
        for daemon in self._daemons:
            daemon.wait(60)

    def ask(self, *words: str) -> str:
        """Return what Ceph answers its administrator."""
        return self._do("ceph", *words)

    def mount(self, path: str, point: Path) -> None:
        """Mount a path of the file system as its administrator; whoever asks unmounts it."""
        keyring = str(self.home / "client.admin.keyring")
        who = ("--conf", str(self.config), "--name", "client.admin", "--keyring", keyring)
        quiet = ("--pid_file=", "--admin_socket=", f"--client_mountpoint={path}")
        self._do("ceph-fuse", *who, *quiet, str(point))

    def _make_keys(self, keyring: str) -> None:
        make = ("--create-keyring", keyring, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        self._do("ceph-authtool", *make)
        for name, rights in _KEYS.items():
            own = str(self.home / f"{name}.keyring")
            pairs = zip(rights[::2], rights[1::2], strict=True)
            caps = [word for kind, right in pairs for word in ("--cap", kind, right)]
            self._do("ceph-authtool", "--create-keyring", own, "--gen-key", "-n", name, *caps)
            self._do("ceph-authtool", keyring, "--import-keyring", own)

    def _do(self, *words: str) -> str:
        done = subprocess.run(
            (*self._inside, *words),
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not done.returncode, f"{' '.join(words)}: {done.stderr}"
        return done.stdout

    def _run(self, *words: str) -> None:
        # The manager fails at some of its work without a standard error.
        with (self.home / "log" / f"{words[0]}.out").open("wb") as log:
            quiet = subprocess.DEVNULL
            self._daemons.append(
                subprocess.Popen(
                    (*self._inside, *words),
                    env=self._environment,
                    stdin=quiet,
                    stdout=log,
                    stderr=log,
                )
            )

    def _await(self, *words: str, told: str) -> None:
        deadline = time.monotonic() + _START_S
        while True:
            done = subprocess.run(
                (*self._inside, "ceph", *words),
                env=self._environment,
                capture_output=True,
                text=True,
                check=False,
            )
            if not done.returncode and told in done.stdout:
                return
            # Each question takes long enough to be no burden.
            if time.monotonic() > deadline:
                pytest.fail(f"Ceph never told {told}: {done.stderr}\n{self._last_words()}")

    def _last_words(self) -> str:
        """What the daemons said last, and which of them have ended."""
        ended = [
            f"{one.args} ended with {one.poll()}" for one in self._daemons if one.poll() is not None
        ]
        logs = sorted((self.home / "log").iterdir())
        tails = [f"{log.name}: {log.read_text('utf-8', 'replace')[-1500:]}" for log in logs]
        return "\n".join([*ended, *tails])

    @property
    def _environment(self) -> dict[str, str]:
        return {"CEPH_CONF": str(self.config), "PATH": os.environ["PATH"]}


@contextmanager
def open_cluster(address: str = "127.0.0.1", namespace: str = "") -> Generator[CephCluster]:
    """Start a cluster, once for many tests; skipped where the machine cannot."""
    if reason := why_no_ceph():
        pytest.skip(reason)
    home = Path(tempfile.mkdtemp(prefix="mooring-ceph"))
    cluster = CephCluster(home, address, namespace)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(home)
