"""Config drives: what every hypervisor promises of them, and what stands on them."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from mooring.agent import config_drives, iso9660
from mooring.agent.config_drives import META_DATA, USER_DATA
from mooring.agent.limits import AGENT_DRIVE_BYTES
from mooring.agent_api.config_drives import ConfigDrive, DriveKey
from mooring.agent_api.servers import PowerRequest, RootDisk, ServerSpec
from mooring.errors import Conflict, Invalid, NotFound
from tests.agent.hosts import IMAGE_ID, TestHost, new_id, open_host, operation, why_no_real_guests
from tests.agent.processes import agent_process
from tests.waiting import until

pytestmark = pytest.mark.anyio
OFF = PowerRequest(state="off")
SECRET = b"#!/bin/sh\nsecret-of-a-user\n"
FILE = "guests/{}/config-drive.iso"


def drive_of(server_id: str, **told: Any) -> ConfigDrive:
    whole: dict[str, Any] = {
        "uuid": server_id,
        "name": "Web 1",
        "hostname": "web-1",
        "project_id": "p1",
        "availability_zone": "nova",
        "meta": {"role": "grüßt"},
        "keys": [DriveKey(name="k", type="ssh", data="ssh-ed25519 AAAA me")],
        "devices": [
            {"type": "disk", "bus": "none", "address": "none", "serial": "v1", "tags": ["db"]},
            {"type": "share", "bus": "none", "address": "none", "share_id": "s1", "tag": "papers"},
        ],
        "user_data": SECRET,
    }
    return ConfigDrive(**{**whole, **told})


def spec_of(drive: ConfigDrive | None) -> ServerSpec:
    return ServerSpec(
        name="guest",
        vcpus=1,
        memory_mib=128,
        root=RootDisk(image_id=IMAGE_ID, size_gib=1),
        network="none",
        drive=drive,
    )


class Booted(msgspec.Struct):
    """A host of either kind, in its directory."""

    host: TestHost
    directory: Path

    def file(self, server_id: str) -> Path:
        """Where the drive of a server is."""
        return self.directory / FILE.format(server_id)

    async def told(self, server_id: str, times: int = 1) -> dict[str, Any]:
        """Return what a guest found on its drive when it was last started."""
        words, said = 'mooring-guest: drive {"uuid"', list[str]()

        async def is_whole() -> bool:
            lines = (await self.host.hears(server_id, words, times)).splitlines(keepends=True)
            said[:] = [line for line in lines if words in line]
            return said[-1].endswith("\n")

        await until(is_whole, "the guest says all that is on its drive")
        return json.loads(said[-1].partition("drive ")[2])


@pytest.fixture(params=["simulated", pytest.param("libvirt", marks=pytest.mark.hosts)])
async def booted(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Booted]:
    if request.param == "libvirt" and (reason := why_no_real_guests()):
        pytest.skip(reason)
    async with AsyncExitStack() as stack:
        if request.param == "libvirt":
            # One process has one libvirt of its own.
            host = (await stack.enter_async_context(agent_process(tmp_path, "libvirt"))).host
        else:
            host, _ = await stack.enter_async_context(open_host(tmp_path))
        await host.push_image()
        try:
            yield Booted(host, tmp_path)
        finally:
            for guest in await host.client.list_servers():
                await host.remove(guest.server_id)


async def test_a_guest_reads_its_drive_at_each_start_and_loses_it_with_itself(
    booted: Booted,
) -> None:
    host, server_id = booted.host, new_id()
    first = drive_of(server_id)
    guest = await host.client.put_server(server_id, spec_of(first), operation=operation())
    assert guest.has_drive
    told = await booted.told(server_id)
    assert told["uuid"] == server_id
    assert (told["name"], told["hostname"], told["meta"]) == ("Web 1", "web-1", first.meta)
    assert told["devices"] == first.devices
    await host.hears(server_id, f"drive has {len(SECRET)} bytes of user data")
    file = booted.file(server_id)
    before = file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    # A guest that runs keeps what it reads, whatever it is told.
    later = drive_of(server_id, name="Web 2", devices=[])
    on = PowerRequest(state="on", drive=later)
    await host.client.set_power(server_id, on, operation=operation())
    assert file.read_bytes() == before
    reboot = PowerRequest(state="reboot", drive=later)
    await host.client.set_power(server_id, reboot, operation=operation())
    told = await booted.told(server_id, 2)
    assert (told["name"], told["devices"]) == ("Web 2", [])
    # What is switched on without a word of its drive has the last one.
    for request in (OFF, PowerRequest(state="on")):
        await host.client.set_power(server_id, request, operation=operation())
    assert (await booted.told(server_id, 3))["name"] == "Web 2"
    await host.remove(server_id)
    assert not file.parent.exists()
    assert (await host.client.inventory()).leftovers == []


async def test_a_guest_that_was_made_without_a_drive_gets_one_at_its_next_start(
    booted: Booted,
) -> None:
    host, server_id = booted.host, new_id()
    off = replace(spec_of(None), power="off")
    guest = await host.client.put_server(server_id, off, operation=operation())
    assert not guest.has_drive
    assert not booted.file(server_id).exists()
    on = PowerRequest(state="on", drive=drive_of(server_id))
    guest = await host.client.set_power(server_id, on, operation=operation())
    assert guest.has_drive
    assert (await booted.told(server_id))["name"] == "Web 1"


async def test_a_guest_that_is_forgotten_without_its_disks_leaves_no_drive(booted: Booted) -> None:
    host, server_id = booted.host, new_id()
    off = replace(spec_of(drive_of(server_id)), power="off")
    await host.client.put_server(server_id, off, operation=operation())
    left = booted.file(server_id).with_name(f"{booted.file(server_id).name}.x.partial")
    left.write_bytes(SECRET)
    await host.client.delete_server(server_id, keeps_disks=True, operation=operation())
    assert not booted.file(server_id).exists()
    assert not left.exists()
    back = replace(off, root=RootDisk(image_id=IMAGE_ID, copied=True))
    await host.client.put_server(server_id, back, operation=operation())
    assert booted.file(server_id).exists()


async def test_a_drive_that_is_too_large_is_refused_and_nothing_is_made(booted: Booted) -> None:
    host, server_id = booted.host, new_id()
    large = drive_of(server_id, meta={str(one): "x" * 255 for one in range(3000)})
    with pytest.raises(Invalid, match=r"config drive .* fit"):
        await host.client.put_server(server_id, spec_of(large), operation=operation())
    assert await host.client.show_server(server_id) is None
    assert not booted.file(server_id).parent.exists()


def find_holders(directory: Path) -> list[str]:
    """Return the files that have the user's secret, in any form."""
    words = SECRET.strip(), base64.b64encode(SECRET)
    found = (file for file in directory.rglob("*") if file.is_file())
    return [file.name for file in found if any(word in file.read_bytes() for word in words)]


async def test_the_journal_and_the_records_of_a_host_know_no_secret(tmp_path: Path) -> None:
    async with open_host(tmp_path) as (host, _):
        server_id = new_id()
        await host.push_image()
        drive = drive_of(server_id)
        await host.client.put_server(server_id, spec_of(drive), operation=operation())
        await host.client.set_power(
            server_id, PowerRequest(state="reboot", drive=drive), operation=operation()
        )
    holders = await asyncio.to_thread(find_holders, tmp_path)
    assert holders == ["config-drive.iso"]


# -- to another host ---------------------------------------------------------------------------


@asynccontextmanager
async def guest_to_send(directory: Path) -> AsyncGenerator[tuple[TestHost, TestHost, str]]:
    """Two hosts, and the id of a guest with a drive that runs on the first one."""
    async with open_host(directory / "a") as (here, _), open_host(directory / "b") as (there, _):
        server_id = new_id()
        for host in (here, there):
            await host.push_image()
        spec = spec_of(drive_of(server_id))
        await here.client.put_server(server_id, spec, operation=operation())
        yield here, there, server_id


async def test_a_guest_that_is_sent_finds_its_own_drive_there(tmp_path: Path) -> None:
    async with guest_to_send(tmp_path) as (here, there, server_id):
        portrait = await here.client.show_portrait(server_id)
        named = operation()
        for _ in range(2):
            await there.client.put_arrival(server_id, portrait, operation=named)
        files = [tmp_path / host / FILE.format(server_id) for host in "ab"]
        assert files[0].read_bytes() == files[1].read_bytes()
        assert files[1].stat().st_mode & 0o777 == 0o600
        arrival = await there.client.show_arrival(server_id)
        assert arrival.drive == str(files[1])
        with pytest.raises(Conflict, match="has not its config drive"):
            await here.client.put_departure(
                server_id, replace(arrival, drive=""), operation=operation()
            )
        await here.client.put_departure(server_id, arrival, operation=operation())
        await here.remove(server_id)
        assert not files[0].exists()
        guest = await there.client.show_server(server_id)
        assert guest is not None
        assert guest.has_drive
        with pytest.raises(Conflict):
            await there.client.put_arrival(server_id, portrait, operation=operation())


async def test_a_guest_that_does_not_come_leaves_no_drive(tmp_path: Path) -> None:
    async with guest_to_send(tmp_path) as (here, there, server_id):
        portrait = await here.client.show_portrait(server_id)
        for wrong in (b"none", portrait.drive[:-40], config_drives.pack(b"0" * 3 * 1024**2)):
            with pytest.raises(Invalid, match="is none, or is too large"):
                await there.client.put_arrival(
                    server_id, replace(portrait, drive=wrong), operation=operation()
                )
        await there.client.put_arrival(server_id, portrait, operation=operation())
        leftovers = (await there.client.inventory()).leftovers
        assert leftovers == [str(tmp_path / "b" / "guests" / server_id)]
        await there.client.delete_arrival(server_id, operation=operation())
        assert (await there.client.inventory()).leftovers == []


async def test_a_drive_is_given_to_no_guest_that_is_not_there(tmp_path: Path) -> None:
    async with open_host(tmp_path) as (_, running):
        with pytest.raises(NotFound):
            await running.agent.hypervisor.give_drive(new_id(), b"", "op")


# -- what stands on it -------------------------------------------------------------------------


def read(image: bytes, version: str) -> dict[str, Any]:
    found = iso9660.read(image, f"openstack/{version}/meta_data.json")
    assert found is not None
    return json.loads(found)


def test_each_version_has_what_it_had() -> None:
    image = config_drives.build(drive_of("u"))
    oldest = {"uuid", "name", "hostname", "meta", "public_keys", "keys", "launch_index"}
    oldest |= {"availability_zone"}
    assert read(image, "2012-08-10").keys() == oldest
    assert read(image, "2013-10-17").keys() == oldest | {"random_seed"}
    assert read(image, "2015-10-15").keys() == oldest | {"random_seed", "project_id"}
    assert [one["type"] for one in read(image, "2018-08-27")["devices"]] == ["disk"]
    latest = read(image, "latest")
    assert latest == read(image, "2025-04-04")
    assert latest["devices"] == drive_of("u").devices
    assert latest["public_keys"] == {"k": "ssh-ed25519 AAAA me"}
    assert latest["keys"] == [{"name": "k", "type": "ssh", "data": "ssh-ed25519 AAAA me"}]
    for version in ("2012-08-10", "2018-08-27", "latest"):
        assert iso9660.read(image, f"openstack/{version}/user_data") == SECRET
    assert iso9660.read(image, "openstack/2013-04-04/vendor_data.json") is None
    assert iso9660.read(image, "openstack/latest/vendor_data2.json") == b"{}"


def test_what_a_server_has_not_is_not_there() -> None:
    image = config_drives.build(drive_of("u", meta={}, keys=[], devices=[], user_data=b""))
    assert iso9660.read(image, USER_DATA) is None
    assert iso9660.read(image, META_DATA) is not None
    assert not {"meta", "keys", "public_keys"} & read(image, "latest").keys()


def test_the_seed_is_a_new_one_each_time() -> None:
    seeds = [read(config_drives.build(drive_of("u")), "latest")["random_seed"] for _ in range(2)]
    assert seeds[0] != seeds[1]
    assert len(base64.b64decode(seeds[0])) == 512


@pytest.mark.parametrize("more", [0, 1])
def test_a_drive_of_the_greatest_size_goes_to_another_host_and_none_beyond(more: int) -> None:
    image = bytes(AGENT_DRIVE_BYTES + more)
    packed = config_drives.pack(image)
    if more:
        with pytest.raises(Invalid, match="too large"):
            config_drives.unpack(packed)
    else:
        assert config_drives.unpack(packed) == image


def test_the_most_that_the_usual_quota_allows_fits() -> None:
    meta = {f"{number:03}" + "😀" * 252: "😀" * 255 for number in range(128)}
    drive = drive_of("u", meta=meta, user_data=bytes(49151))
    image = config_drives.build(drive)
    assert len(image) <= AGENT_DRIVE_BYTES
    packed = config_drives.pack(image)
    assert config_drives.unpack(packed) == image
