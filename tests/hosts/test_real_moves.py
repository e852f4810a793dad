"""A real guest moves between two real libvirt daemons, each in namespaces of its own.

Source: facts/real_hosts.md 4. The guest says on its console how often it has written.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import pytest

from mooring.agent_api.disks import DiskSpec
from mooring.agent_api.servers import ServerSpec
from tests.agent.hosts import GUEST_IMAGE, new_id, operation
from tests.agent.processes import AgentProcess, agent_behind

pytestmark = [pytest.mark.anyio, pytest.mark.hosts]
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
def namespaces(*names: str) -> Generator[None]:
    """Give each name a network namespace on one bridge: 10.77.0.1, 10.77.0.2, ..."""
    bridge = "moor-br"
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


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncGenerator[tuple[AgentProcess, AgentProcess]]:
    if os.geteuid() != 0 or shutil.which("libvirtd") is None:
        pytest.skip("two daemons need root and libvirtd")
    names = ("moor-a", "moor-b")
    async with AsyncExitStack() as stack:
        stack.enter_context(namespaces(*names))
        found: list[AgentProcess] = []
        for number, name in enumerate(names, 1):
            root = tmp_path / name
            root.mkdir()
            before = command(root, name)
            stack.callback(end_daemon, root)
            more = ("", "", name, f"10.77.0.{number}")
            agent = agent_behind(before, root / "state", "libvirt", *more)
            found.append(await stack.enter_async_context(agent))
        yield found[0], found[1]


async def test_a_real_guest_moves_and_goes_on_writing(
    pair: tuple[AgentProcess, AgentProcess], tmp_path: Path
) -> None:
    here, there = (agent.client for agent in pair)
    volume_id, server_id, first, second = (new_id() for _ in range(4))
    image = tmp_path / "volume.qcow2"
    shutil.copyfile(GUEST_IMAGE, image)
    data = {"device_path": str(image), "format": "qcow2"}
    connection = {"driver_volume_type": "local", "data": data}
    disk = DiskSpec(volume_id=volume_id, attachment_id=first, connection=connection, boot_index=0)
    spec = ServerSpec(name="guest", vcpus=1, memory_mib=128, disks=[disk], network="none")
    await here.put_server(server_id, spec, operation=operation())
    await pair[0].host.hears(server_id, "mooring-guest: up")
    portrait = await here.show_portrait(server_id)
    await there.put_arrival(server_id, portrait, operation=operation())
    await there.connect(second, volume_id, connection, server_id=server_id, operation=operation())
    arrival = await there.show_arrival(server_id)
    await here.put_departure(server_id, arrival, operation=operation())
    guests = [await client.show_server(server_id) for client in (here, there)]
    assert [guest and guest.state for guest in guests] == ["migrated", "running"]
    moved = guests[1]
    assert moved is not None
    assert [(one.attachment_id, one.live) for one in moved.disks] == [(second, True)]
    await here.delete_server(server_id, operation=operation())
    assert await here.show_server(server_id) is None
    await there.delete_server(server_id, operation=operation())
