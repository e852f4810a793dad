"""An agent with a pool on each of two NFS shares, and a guest that writes to a volume of each.

The guest is put to sleep on this machine, with stand-ins for the shares, and wakes in the test
kernel, on real ones: to boot there would take minutes.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from mooring.agent.app import open_agent
from mooring.agent.libvirt import accelerator
from mooring.agent.settings import AgentSettings, MountSettings, PoolSettings
from mooring.agent_api.client import AgentClient, Agents
from mooring.agent_api.disks import DiskSpec
from mooring.agent_api.volumes import VolumeSpec
from tests.agent.hosts import CHECKOUT, TestHost, new_id, operation, spec_of, stream
from tests.agent.shares import Shares
from tests.hosts.written import LABEL

FORMATS = ("raw", "qcow2")
"""The formats, which are names of pools and of shares too."""
NAME = "kernel"
MIB = 1 << 20
_LABEL_ID = "0c0ffee0-0000-4000-8000-000000000002"


class Sleeper(Struct, frozen=True):
    """A guest that sleeps, and its volumes by their formats."""

    server_id: str
    volumes: dict[str, str]


def settings(state_dir: Path, mounts: MountSettings) -> AgentSettings:
    """Return the settings of the agent."""
    pools = tuple(_pool(one) for one in FORMATS)
    return AgentSettings(
        name=NAME, state_dir=state_dir, hypervisor="libvirt", pools=pools, mounts=mounts
    )


def export(disk_format: str) -> str:
    """Return the export of a share."""
    return f"127.0.0.1:/{disk_format}"


async def leave_asleep(state_dir: Path, outside: Path) -> Sleeper:
    """Do `fall_asleep_writing` in a process of its own: libvirt keeps to one directory in each."""
    command = [sys.executable, "-m", "tests.hosts.nfs_agent", str(state_dir), str(outside)]
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT / 'src'}:{CHECKOUT}"}
    ran = await asyncio.to_thread(
        lambda: subprocess.run(
            command, cwd=CHECKOUT, env=environment, stdout=subprocess.PIPE, check=True
        )
    )
    return msgspec.json.decode(ran.stdout.splitlines()[-1], type=Sleeper)


async def fall_asleep_writing(state_dir: Path, shares: Shares) -> Sleeper:
    """Leave a guest in an agent's state directory that was put to sleep while it wrote."""
    for one in FORMATS:
        shares.export(export(one))
    async with open_agent(settings(state_dir, shares.settings())) as running:
        host = TestHost(Agents().in_process(NAME, running.app), real=True)
        content = LABEL.ljust(MIB, b"\0")
        await host.client.put_image(
            _LABEL_ID, spec_of(content, "raw"), stream(content), operation=operation()
        )
        disks = {one: await _make_disk(host.client, one) for one in FORMATS}
        server_id = new_id()
        await host.boot(server_id, list(disks.values()))
        for device in ("vdb", "vdc"):
            await host.hears(server_id, f"{device} writer has written")
        await asyncio.to_thread(_save, state_dir, server_id)
        return Sleeper(server_id, {one: disk.volume_id for one, disk in disks.items()})


def _pool(disk_format: str) -> PoolSettings:
    host, _, path = export(disk_format).partition(":")
    nfs = {
        "nas_host": host,
        "nas_share_path": path,
        "nas_mount_options": "vers=4.2",
        "nfs_qcow2_volumes": disk_format == "qcow2",
    }
    return msgspec.convert({"name": disk_format, "driver": "nfs", "nfs": nfs}, PoolSettings)


async def _make_disk(client: AgentClient, disk_format: str) -> DiskSpec:
    volume_id, attachment_id = new_id(), new_id()
    spec = VolumeSpec(pool=disk_format, size_gib=1, image_id=_LABEL_ID)
    await client.put_volume(volume_id, spec, operation=operation())
    connection = await client.export_volume(
        volume_id, attachment_id, await client.connector(), operation=operation()
    )
    return DiskSpec(volume_id=volume_id, attachment_id=attachment_id, connection=connection)


def _save(state_dir: Path, server_id: str) -> None:
    """Let libvirt write down all that the guest is, and end it: its next start goes on there."""
    binding: Any = importlib.import_module("libvirt")
    root = state_dir / "libvirt"
    # Where the path is too long for QEMU's sockets, the agent has made a short link to it.
    links = [link for link in Path("/run").glob("mooring-*") if link.is_symlink()]
    root = next((link for link in links if link.readlink() == root), root)
    with closing(binding.open(f"qemu:///embed?root={root}")) as connection:
        [domain] = [one for one in connection.listAllDomains() if server_id in one.name()]
        domain.managedSave(0)


def main() -> None:
    """Leave a guest asleep, and tell which: `python -m tests.hosts.nfs_agent STATE OUTSIDE`."""
    state_dir, outside = (Path(word) for word in sys.argv[1:])
    # The kernel is emulated, so the guest must be one that an emulated processor can go on with.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accelerator, "KVM", state_dir / "no-kvm")
        sleeper = asyncio.run(fall_asleep_writing(state_dir, Shares(outside)))
    sys.stdout.write(f"{msgspec.json.encode(sleeper).decode()}\n")


if __name__ == "__main__":
    main()
