"""Hosts on one machine: namespaces on a bridge, each with a libvirt daemon of its own.

Source: facts/real_hosts.md 4.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.agent.hosts import new_id

_DIRECTORIES = ("etc/libvirt", "var/lib/libvirt", "run/libvirt", "var/cache/libvirt")
_DAEMON = """
listen_tls = 0
listen_tcp = 1
auth_tcp = "none"
auth_unix_rw = "none"
log_outputs = "3:file:{root}/libvirtd.log"
host_uuid = "{uuid}"
"""
_QEMU = """
user = "root"
group = "root"
remember_owner = 0
security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
"""


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True)


@contextmanager
def namespaces(*names: str, bridge: str = "moor-br") -> Generator[None]:
    """Give each name a network namespace on one bridge: 10.77.0.1, 10.77.0.2, ..."""
    _run("ip", "link", "add", bridge, "type", "bridge")
    try:
        _run("ip", "link", "set", bridge, "up")
        for number, name in enumerate(names, 1):
            _run("ip", "netns", "add", name)
            _run("ip", "link", "add", f"v-{name}", "type", "veth", "peer", "e0", "netns", name)
            _run("ip", "link", "set", f"v-{name}", "master", bridge, "up")
            inside = ("ip", "-n", name)
            _run(*inside, "addr", "add", f"10.77.0.{number}/24", "dev", "e0")
            _run(*inside, "link", "set", "e0", "up")
            _run(*inside, "link", "set", "lo", "up")
        yield
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False)
        subprocess.run(["ip", "link", "del", bridge], check=False)


def command(root: Path, name: str) -> list[str]:
    """Return what goes before an agent: namespaces, and a libvirt daemon of its own."""
    for directory in _DIRECTORIES:
        (root / directory).mkdir(parents=True)
    daemon = _DAEMON.format(root=root, uuid=new_id())
    (root / "etc/libvirt/libvirtd.conf").write_text(daemon, "ascii")
    (root / "etc/libvirt/qemu.conf").write_text(_QEMU, "ascii")
    binds = "\n".join(
        f"mkdir -p /{directory}; mount --bind {root}/{directory} /{directory}"
        for directory in _DIRECTORIES
    )
    script = f"set -e\nhostname {name}\n{binds}\nlibvirtd -d -l -p {root}/libvirtd.pid\n"
    script += 'while ! [ -S /run/libvirt/libvirt-sock ]; do sleep 0.1; done\nexec "$@"'
    return ["ip", "netns", "exec", name, "unshare", "--mount", "--uts", "sh", "-c", script, "sh"]


def end_daemon(root: Path) -> None:
    """End a host's daemon."""
    pid = root / "libvirtd.pid"
    if pid.exists():
        os.kill(int(pid.read_text("ascii")), 15)


def why_no_two_hosts() -> str:
    """Return why there cannot be two real hosts here; empty when there can."""
    if os.geteuid() != 0:
        return "only root makes namespaces with daemons in them"
    missing = [one for one in ("libvirtd", "ip", "unshare") if shutil.which(one) is None]
    return f"{', '.join(missing)} not found" if missing else ""
