"""Guests of root's agents run as a user of their own, who gets at their files and at no others'."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Generator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import pytest

from mooring.agent.emulator_files import find_user
from mooring.agent.seclusion import EMULATOR
from mooring.agent_api.servers import PowerRequest
from mooring.lab.real_hosts import RealHost, RealHosts
from tests.agent.hosts import new_id, operation
from tests.agent.processes import AgentProcess, agent_behind, emulators
from tests.contract.clients import IMAGE, VOLUME
from tests.hosts.conftest import require_guests
from tests.hosts.real_cloud import GIB, Guest, RealCloud, tended
from tests.passages import open_directory

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.hosts,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root's guests become another user"),
]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    require_guests()
    return tmp_path


def owner_of(process_id: int) -> str:
    """Return whom a process runs as, by all four of its ids."""
    lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    [ids] = [line.split()[1:] for line in lines if line.startswith("Uid:")]
    assert len(set(ids)) == 1
    return pwd.getpwuid(int(ids[0])).pw_name


def capabilities_of(process_id: int) -> int:
    lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    [effective] = [line.split()[1] for line in lines if line.startswith("CapEff:")]
    return int(effective, 16)


def readable(state: Path, user: str) -> set[str]:
    """Return which files of a directory a user may read, by their names there."""
    every = [path for path in state.rglob("*") if path.is_file()]
    assert len(every) > 10
    look = 'while IFS= read -r one; do if test -r "$one"; then echo "$one"; fi; done'
    command = [*find_user(user).words("sh"), "-c", look]
    listed = "".join(f"{path}\n" for path in every)
    done = subprocess.run(command, input=listed, capture_output=True, text=True, check=True)
    return {str(Path(line).relative_to(state)) for line in done.stdout.splitlines()}


def test_a_guest_runs_as_a_user_who_reads_guests_files_and_nothing_else_of_the_cloud(
    directory: Path, guest_image: bytes
) -> None:
    with tended(RealCloud(directory)) as cloud:
        image_id = cloud.demo.image("guest", guest_image, "qcow2")
        guest = cloud.boot("alone", imageRef=image_id)
        assert owner_of(guest.process_id()) == EMULATOR
        assert capabilities_of(guest.process_id()) == 0
        volume_id = cloud.demo.volume("papers")
        guest.attach(volume_id)
        guest.sees(volume_id)
        [host] = [path.name for path in (cloud.state_dir / "hosts").iterdir()]
        seen = readable(cloud.state_dir, EMULATOR)
        wanted = {
            f"hosts/{host}/guests/{guest.server_id}/root.qcow2",
            f"hosts/{host}/guests/{guest.server_id}/base",
            f"hosts/{host}/volumes/volume-{volume_id}",
        }
        assert wanted <= seen
        secrets = ("passwords", "keys", ".sqlite", "token", "audit", "console", ".pem", "images/")
        of_images = {f"hosts/{host}/images/{image_id}", f"hosts/{host}/images/{image_id}.json"}
        told = {name for name in seen - of_images if any(word in name for word in secrets)}
        assert told == set()
        assert not {name for name in seen if not name.startswith(f"hosts/{host}/")}
        # Nobody else of this machine reads anything, wherever the cloud may be.
        for each in (directory, directory.parent):
            each.chmod(0o711)
        assert readable(cloud.state_dir, "nobody") == set()
        open_directory(directory)
        open_directory(directory.parent)
        guest.detach(volume_id)
        cloud.delete(guest.path)
        cloud.delete(f"{VOLUME}/volumes/{volume_id}")
        cloud.delete(f"{IMAGE}/images/{image_id}")


@pytest.fixture(params=["shared", "private"])
def mounted(request: pytest.FixtureRequest, directory: Path) -> Generator[str]:
    """How the directory is mounted: later mounts below are seen in other namespaces, or not."""
    subprocess.run(["mount", "--bind", directory, directory], check=True)
    try:
        subprocess.run(["mount", f"--make-{request.param}", directory], check=True)
        yield request.param
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)


def test_a_guest_has_mounts_and_devices_of_its_own_where_it_sees_later_mounts(
    mounted: str, directory: Path, guest_image: bytes
) -> None:
    """What isolates a guest (docs/hosts.md): else the agent's log says that it has none."""
    with tended(RealCloud(directory)) as cloud:
        image_id = cloud.demo.image("guest", guest_image, "qcow2")
        guest = cloud.boot("shut in", imageRef=image_id)
        emulator, is_own = Path(f"/proc/{guest.process_id()}"), mounted == "shared"
        ours = Path("/proc/self/ns/mnt").readlink()
        assert ((emulator / "ns/mnt").readlink() != ours) == is_own
        devices = (emulator / "root/dev").stat()
        assert (devices.st_dev != Path("/dev").stat().st_dev) == is_own
        said = (directory / "log").read_text("utf-8", "replace")
        assert ("guests share the machine's /dev and mounts" in said) != is_own
        cloud.delete(guest.path)
        cloud.delete(f"{IMAGE}/images/{image_id}")


@pytest.fixture
def former(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[RealCloud]:
    """A cloud as the release before ran it: its guests are root's."""
    monkeypatch.setenv("MOORING_EMULATOR_USER", "root")
    with tended(RealCloud(directory)) as cloud:
        monkeypatch.delenv("MOORING_EMULATOR_USER")
        cloud.is_former = True
        yield cloud


def test_a_guest_of_the_release_before_goes_on_and_becomes_that_user_at_its_next_start(
    former: RealCloud, guest_image: bytes
) -> None:
    cloud = former
    image_id = cloud.demo.image("guest", guest_image, "qcow2")
    guest = cloud.boot("old", imageRef=image_id)
    first, second = cloud.demo.volume("first"), cloud.demo.volume("second")
    guest.attach(first)
    guest.sees(first)
    [volume] = cloud.files(f"volume-{first}")[:1]
    process_id = guest.process_id()
    assert owner_of(process_id) == "root"
    assert volume.stat().st_uid == 0
    assert cloud.stop() == 0
    cloud.start()
    # As root it goes on, and is given disks and sees them grow as before.
    guest.attach(second)
    guest.sees(second)
    grow_and_snapshot(guest, second, first)
    assert guest.process_id() == process_id
    guest.forget()
    guest.act("reboot", {"type": "HARD"})
    guest.until("ACTIVE")
    assert owner_of(guest.process_id()) == EMULATOR
    guest.hear(f"mooring-guest: machine {guest.server_id}")
    guest.sees(first)
    guest.sees(second, 2)
    clean_up(guest, image_id, first, second)


def grow_and_snapshot(guest: Guest, grows: str, taken: str) -> None:
    """Have the guest see one volume grow, and take a snapshot of another one."""
    cloud = guest.cloud
    body = {"os-extend": {"new_size": 2}}
    answer = cloud.demo.ask("POST", f"{VOLUME}/volumes/{grows}/action", body, version="3.42")
    assert answer.status == 202, answer
    guest.hear(rf"disk vd. {2 * GIB} bytes serial={grows[:20]}")
    cloud.demo.until_volume(grows, "in-use")
    snapshot = cloud.demo.ask(
        "POST", f"{VOLUME}/snapshots", {"snapshot": {"volume_id": taken, "force": True}}
    ).key("snapshot")["id"]
    cloud.demo.until(
        f"{VOLUME}/snapshots/{snapshot}",
        lambda got: got.key("snapshot")["status"] == "available",
    )
    cloud.delete(f"{VOLUME}/snapshots/{snapshot}")


def clean_up(guest: Guest, image_id: str, *volume_ids: str) -> None:
    for volume_id in volume_ids:
        guest.detach(volume_id)
    guest.cloud.delete(guest.path)
    for volume_id in volume_ids:
        guest.cloud.delete(f"{VOLUME}/volumes/{volume_id}")
    guest.cloud.delete(f"{IMAGE}/images/{image_id}")


async def test_a_guest_of_the_release_before_moves_to_a_host_where_it_is_that_user(
    directory: Path, several_hosts: None
) -> None:
    del several_hosts
    server_id, names = new_id(), ("moor-u", "moor-v")
    async with AsyncExitStack() as stack:
        before = RealHosts(directory, names, "root")
        stack.push_async_callback(before.close, guests=True)
        await before.open()
        async with agent_of(before.hosts[0]) as agent:
            await agent.host.boot(server_id)
            await agent.host.hears(server_id, f"boot marker written {server_id}")
        [process_id] = emulators(server_id)
        assert owner_of(process_id) == "root"
        lab = RealHosts(directory, names)
        await lab.open()
        here, there = [await stack.enter_async_context(agent_of(host)) for host in lab.hosts]
        assert emulators(server_id) == [process_id]
        await there.host.push_image()
        portrait = await here.client.show_portrait(server_id)
        await there.client.put_arrival(server_id, portrait, operation=operation())
        arrival = await there.client.show_arrival(server_id)
        await here.client.put_departure(server_id, arrival, operation=operation())
        await here.client.delete_server(server_id, operation=operation())
        [process_id] = emulators(server_id)
        assert owner_of(process_id) == EMULATOR
        reboot = PowerRequest(state="reboot")
        await there.client.set_power(server_id, reboot, operation=operation())
        await there.host.hears(server_id, f"boot marker read {server_id}")
        await there.client.delete_server(server_id, operation=operation())


def agent_of(host: RealHost) -> AbstractAsyncContextManager[AgentProcess]:
    more = ("", "", host.name, host.namespace.address)
    return agent_behind(host.before(), host.directory / "state", "libvirt", *more)
