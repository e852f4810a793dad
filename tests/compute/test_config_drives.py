"""Config drives of servers: who has one, what stands on it, and that it goes where they go."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import MetaData, select
from sqlalchemy.orm import Session as Transaction

from mooring.agent import config_drives, iso9660
from mooring.compute.drives.config_drives import TRAIT
from mooring.compute.tables import Server
from mooring.errors import Conflict
from tests.callers import PROJECT
from tests.compute.cloud import IMAGE, NEW, ComputeCloud
from tests.compute.rebuilding import Between, make_booted, rebuild, rebuild_well, state
from tests.compute.sharing import SharingCloud

pytestmark = pytest.mark.anyio
HOSTS = ("host1", "host2")
USER_DATA = b"#!/bin/sh\nsecret-of-a-user\n"
ENCODED = base64.b64encode(USER_DATA).decode()


@pytest.fixture
async def sharing(tmp_path: Path) -> AsyncGenerator[SharingCloud]:
    async with SharingCloud(tmp_path, hosts=HOSTS) as opened:
        yield opened


def file(cloud: ComputeCloud, server_id: str, host: str = "host1") -> Path:
    """Return where a host has the drive of a server, if it has it."""
    return cloud.hypervisor(host).guest_directory / server_id / config_drives.FILE


def read(cloud: ComputeCloud, server_id: str, host: str = "host1") -> dict[str, Any]:
    """Return what a server's guest is told."""
    found = iso9660.read(file(cloud, server_id, host).read_bytes(), config_drives.META_DATA)
    assert found is not None
    return json.loads(found)


def read_user_data(cloud: ComputeCloud, server_id: str) -> bytes | None:
    return iso9660.read(file(cloud, server_id).read_bytes(), config_drives.USER_DATA)


async def make(cloud: ComputeCloud, **more: Any) -> str:
    return await cloud.make_server(config_drive=True, **more)


async def act(cloud: ComputeCloud, server_id: str, action: str, value: Any = None) -> None:
    assert await cloud.act(server_id, action, value) in {202, 204}
    await cloud.settle()


# -- who has one -------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [True, "true", "True", "1", "on", "yes"])
async def test_a_server_gets_one_that_asks_for_it(cloud: ComputeCloud, wanted: Any) -> None:
    server_id = await cloud.make_server(config_drive=wanted)
    assert (await cloud.server(server_id))["config_drive"] == "True"
    assert read(cloud, server_id)["uuid"] == server_id


@pytest.mark.parametrize("wanted", [False, "false", "0", "off", "no"])
async def test_a_server_that_wants_none_has_none(cloud: ComputeCloud, wanted: Any) -> None:
    server_id = await cloud.make_server(config_drive=wanted)
    assert (await cloud.server(server_id))["config_drive"] == ""
    assert not file(cloud, server_id).exists()
    guest = await cloud.known_agents["host1"].show_server(server_id)
    assert guest is not None
    assert not guest.has_drive


async def test_an_image_may_ask_for_one(cloud: ComputeCloud) -> None:
    cloud.shelf.put(IMAGE, b"\0" * 65536, name="tiny", img_config_drive="optional")
    assert (await cloud.server(await cloud.make_server()))["config_drive"] == ""
    cloud.shelf.put(IMAGE, b"\0" * 65536, name="tiny", img_config_drive="mandatory")
    server_id = await cloud.make_server()
    assert (await cloud.server(server_id))["config_drive"] == "True"
    assert file(cloud, server_id).exists()


async def test_an_operator_may_give_one_to_all(cloud: ComputeCloud) -> None:
    cloud.compute.settings = replace(cloud.compute.settings, force_config_drive=True)
    server_id = await cloud.make_server(config_drive=False)
    assert (await cloud.server(server_id))["config_drive"] == "True"
    assert file(cloud, server_id).exists()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"config_drive": "maybe"}, "config_drive"),
        ({"config_drive": 1}, "config_drive"),
        ({"user_data": "A" * 65536}, "user_data"),
        ({"user_data": "%%%"}, "user_data"),
        ({"key_name": "nobodys"}, "nobodys"),
    ],
)
async def test_what_makes_no_sense_is_400_and_nothing_is_created(
    cloud: ComputeCloud, wrong: dict[str, Any], words: str
) -> None:
    server = {"name": "s", "flavorRef": "1", "imageRef": IMAGE, "networks": "none"}
    answer = await cloud.ask("POST", "/servers", {"server": {**server, **wrong}})
    assert answer.status == 400
    assert words in answer.text
    await cloud.settle()
    assert (await cloud.ask("GET", "/servers")).body["servers"] == []


async def test_a_host_that_makes_none_is_not_chosen(tmp_path: Path) -> None:
    async with ComputeCloud(tmp_path, hosts=HOSTS) as cloud:
        await cloud.change_host("host1", hidden_traits=frozenset({TRAIT}))
        made = await cloud.server(await make(cloud))
        assert (made["status"], made["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", "host2")
        for move in ("migrate", "os-migrateLive"):
            value = None if move == "migrate" else {"host": None, "block_migration": "auto"}
            await cloud.look_at_hosts()
            assert await cloud.act(made["id"], move, value, user="admin", version="2.90") == 202
            await cloud.settle()
            there = await cloud.server(made["id"])
            assert (there["status"], there["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", "host2")
        await cloud.change_host("host2", hidden_traits=frozenset({TRAIT}))
        await cloud.look_at_hosts()
        made = await cloud.server(await make(cloud))
        assert made["status"] == "ERROR"
        assert TRAIT in made["fault"]["message"]


# -- what stands on it -------------------------------------------------------------------------


async def test_a_guest_is_told_what_its_server_is(cloud: ComputeCloud) -> None:
    asked = {"keypair": {"name": "k"}}
    key = (await cloud.ask("POST", "/os-keypairs", asked, version="2.2")).body["keypair"]
    server_id = await make(
        cloud, name="Web 1", key_name="k", user_data=ENCODED, metadata={"role": "grüßt"}
    )
    told = read(cloud, server_id)
    assert len(base64.b64decode(told.pop("random_seed"))) == 512
    assert told == {
        "uuid": server_id,
        "name": "Web 1",
        "hostname": "web-1",
        "launch_index": 0,
        "availability_zone": "nova",
        "project_id": PROJECT,
        "meta": {"role": "grüßt"},
        "keys": [{"name": "k", "type": "ssh", "data": key["public_key"]}],
        "public_keys": {"k": key["public_key"]},
        "devices": [],
        "dedicated_cpus": [],
    }
    assert read_user_data(cloud, server_id) == USER_DATA


async def test_servers_that_are_made_together_know_their_numbers(cloud: ComputeCloud) -> None:
    await make(cloud, name="s", min_count=2)
    listed = (await cloud.ask("GET", "/servers")).body["servers"]
    told = sorted((read(cloud, one["id"]) for one in listed), key=lambda one: one["launch_index"])
    assert [(one["launch_index"], one["name"]) for one in told] == [(0, "s-1"), (1, "s-2")]


async def test_a_disk_with_a_tag_is_told_of(cloud: ComputeCloud) -> None:
    volume_id = await cloud.make_volume()
    root = {"source_type": "image", "destination_type": "local", "uuid": IMAGE, "boot_index": 0}
    data = {"source_type": "volume", "destination_type": "volume", "uuid": volume_id}
    disks = [{**root, "tag": "system"}, {**data, "boot_index": -1, "tag": "data"}]
    server_id = await make(cloud, block_device_mapping_v2=disks)
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    disk = {"type": "disk", "bus": "none", "address": "none"}
    assert read(cloud, server_id)["devices"] == [
        {**disk, "tags": ["system"]},
        {**disk, "serial": volume_id, "tags": ["data"]},
    ]


async def test_shares_are_told_of_from_the_next_start_on(sharing: SharingCloud) -> None:
    server_id = await make(sharing, flavorRef="1")
    host = (await sharing.server(server_id, version="2.97"))["OS-EXT-SRV-ATTR:host"]
    assert read(sharing, server_id, host)["devices"] == []
    await sharing.power(server_id, "os-stop")
    share_id = await sharing.make_share()
    assert (await sharing.add_share(server_id, share_id, more={"tag": "papers"})).status == 201
    await sharing.settle()
    await sharing.power(server_id, "os-start")
    share = {"type": "share", "bus": "none", "address": "none", "share_id": share_id}
    assert read(sharing, server_id, host)["devices"] == [{**share, "tag": "papers"}]
    console = await sharing.known_agents[host].read_console(server_id)
    assert f'"share_id":"{share_id}","tag":"papers"' in console
    await sharing.power(server_id, "os-stop")
    assert (await sharing.remove_share(server_id, share_id)).status == 200
    await sharing.settle()
    await sharing.power(server_id, "os-start")
    assert read(sharing, server_id, host)["devices"] == []


async def test_what_changes_is_told_at_a_hard_reboot_and_not_before(cloud: ComputeCloud) -> None:
    server_id = await make(cloud)
    before = file(cloud, server_id).read_bytes()
    changed = {"metadata": {"role": "db"}}
    assert (await cloud.ask("POST", f"/servers/{server_id}/metadata", changed)).status == 200
    await act(cloud, server_id, "reboot", {"type": "SOFT"})
    assert file(cloud, server_id).read_bytes() == before
    await act(cloud, server_id, "reboot", {"type": "HARD"})
    assert read(cloud, server_id)["meta"] == {"role": "db"}


# -- secrets -----------------------------------------------------------------------------------


async def test_no_journal_and_no_notes_have_user_data(
    cloud: ComputeCloud, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    server_id = await make(cloud, user_data=ENCODED)
    await act(cloud, server_id, "reboot", {"type": "HARD"})
    await rebuild_well(cloud, server_id)
    told = caplog.text + "".join(capfd.readouterr())
    for word in ("secret-of-a-user", ENCODED):
        assert word not in told
    # It is in the server's row and on the drive, and nowhere else.
    assert await cloud.compute.store.read(_find_holders) == ["servers"]
    journal = cloud.hypervisor().guest_directory.parent / "journal.sqlite"
    for found in journal.parent.glob("journal.sqlite*"):
        content = found.read_bytes()
        assert USER_DATA not in content
        assert ENCODED.encode() not in content


def _find_holders(tx: Transaction) -> list[str]:
    """Return the tables that have the user data."""
    tables = MetaData()
    tables.reflect(tx.connection())
    return [
        table.name
        for table in tables.sorted_tables
        if any(ENCODED in str(tuple(row)) for row in tx.execute(select(table)))
    ]


# -- rebuilds ----------------------------------------------------------------------------------


async def test_a_rebuild_keeps_the_drive_and_tells_what_the_body_changes(
    cloud: ComputeCloud,
) -> None:
    server_id = await make(cloud, user_data=ENCODED, metadata={"old": "1"})
    other = base64.b64encode(b"other").decode()
    await rebuild_well(cloud, server_id, name="other", user_data=other, metadata={"new": "2"})
    assert (await cloud.server(server_id))["config_drive"] == "True"
    told = read(cloud, server_id)
    assert (told["name"], told["meta"]) == ("other", {"new": "2"})
    assert read_user_data(cloud, server_id) == b"other"
    await rebuild_well(cloud, server_id, user_data=None)
    assert read_user_data(cloud, server_id) is None


async def test_a_rebuild_with_an_image_that_asks_for_a_drive_makes_one(
    cloud: ComputeCloud,
) -> None:
    server_id = await cloud.make_server()
    cloud.shelf.put(NEW, b"new!" * 16384, name="new", img_config_drive="mandatory")
    await rebuild_well(cloud, server_id)
    assert (await cloud.server(server_id))["config_drive"] == "True"
    assert file(cloud, server_id).exists()


async def test_a_rebuild_is_refused_where_its_host_makes_no_drive(cloud: ComputeCloud) -> None:
    await cloud.change_host("host1", hidden_traits=frozenset({TRAIT}))
    server_id = await cloud.make_server()
    cloud.shelf.put(NEW, b"new!" * 16384, name="new", img_config_drive="mandatory")
    await cloud.look_at_hosts()
    answer = await rebuild(cloud, server_id)
    assert answer.status == 409
    assert TRAIT in answer.text
    await cloud.settle()
    assert await state(cloud, server_id) == ("ACTIVE", None)
    assert not file(cloud, server_id).exists()


async def test_a_rebuild_that_fails_tells_the_guest_what_it_was(cloud: ComputeCloud) -> None:
    server_id, _ = await make_booted(cloud, config_drive=True, metadata={"old": "1"})
    between = Between(cloud)
    between.answer("POST", "/action os-reimage", 400)
    await rebuild_well(cloud, server_id, name="other", hostname="other", metadata={"new": "2"})
    assert await state(cloud, server_id) == ("ACTIVE", None)
    told = read(cloud, server_id)
    assert (told["name"], told["hostname"], told["meta"]) == ("s", "s", {"old": "1"})


async def test_a_rebuild_that_fails_gives_a_guest_no_drive_that_had_none(
    cloud: ComputeCloud,
) -> None:
    server_id, _ = await make_booted(cloud)
    cloud.shelf.put(NEW, b"new!" * 16384, name="new", img_config_drive="mandatory")
    between = Between(cloud)
    between.answer("POST", "/action os-reimage", 400)
    await rebuild_well(cloud, server_id)
    assert await state(cloud, server_id) == ("ACTIVE", None)
    assert (await cloud.server(server_id))["config_drive"] == ""
    [guest] = await cloud.known_agents["host1"].list_servers()
    assert not guest.has_drive
    assert not file(cloud, server_id).exists()


# -- deletion and moves ------------------------------------------------------------------------


async def test_a_deleted_server_leaves_no_drive(cloud: ComputeCloud) -> None:
    server_id = await make(cloud)
    directory = file(cloud, server_id).parent
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await cloud.settle()
    assert not directory.exists()
    assert (await cloud.known_agents["host1"].inventory()).leftovers == []


async def test_a_creation_that_fails_leaves_no_drive(cloud: ComputeCloud) -> None:
    cloud.hypervisor().knobs.fail("power_on", Conflict("No."))
    server_id = await make(cloud)
    assert (await cloud.server(server_id))["status"] == "ERROR"
    assert not file(cloud, server_id).parent.exists()


async def test_a_guest_that_moves_on_reads_its_own_drive(tmp_path: Path) -> None:
    async with ComputeCloud(tmp_path, hosts=HOSTS) as cloud:
        server_id = await make(cloud, user_data=ENCODED)
        source = (await cloud.server(server_id))["OS-EXT-SRV-ATTR:host"]
        destination = next(host for host in HOSTS if host != source)
        before = file(cloud, server_id, source).read_bytes()
        # What changed meanwhile must not change what a running guest has mounted.
        changed = {"metadata": {"role": "db"}}
        assert (await cloud.ask("POST", f"/servers/{server_id}/metadata", changed)).status == 200
        await cloud.look_at_hosts()
        value = {"host": destination, "block_migration": "auto"}
        live = "os-migrateLive"
        assert await cloud.act(server_id, live, value, user="admin", version="2.90") == 202
        await cloud.settle()
        assert (await cloud.server(server_id))["OS-EXT-SRV-ATTR:host"] == destination
        assert file(cloud, server_id, destination).read_bytes() == before
        assert not file(cloud, server_id, source).parent.exists()
        await act(cloud, server_id, "reboot", {"type": "HARD"})
        assert read(cloud, server_id, destination)["meta"] == {"role": "db"}


@pytest.mark.parametrize("word", ["confirmResize", "revertResize"])
async def test_a_server_that_is_moved_while_off_has_a_drive_wherever_it_starts(
    tmp_path: Path, word: str
) -> None:
    async with ComputeCloud(tmp_path, hosts=HOSTS) as cloud:
        server_id = await make(cloud, user_data=ENCODED)
        source = (await cloud.server(server_id))["OS-EXT-SRV-ATTR:host"]
        destination = next(host for host in HOSTS if host != source)
        await cloud.look_at_hosts()
        assert await cloud.act(server_id, "migrate", user="admin", version="2.90") == 202
        await cloud.settle()
        assert (await cloud.server(server_id))["status"] == "VERIFY_RESIZE"
        assert read(cloud, server_id, destination)["uuid"] == server_id
        assert not file(cloud, server_id, source).exists()
        await act(cloud, server_id, word)
        kept, left = destination, source
        if word == "revertResize":
            kept, left = source, destination
        assert (await cloud.server(server_id))["OS-EXT-SRV-ATTR:host"] == kept
        assert read(cloud, server_id, kept)["uuid"] == server_id
        assert not file(cloud, server_id, left).parent.exists()
        for host in HOSTS:
            assert (await cloud.known_agents[host].inventory()).leftovers == []


async def test_the_zone_is_that_of_the_host_where_the_guest_starts(tmp_path: Path) -> None:
    async with ComputeCloud(tmp_path, hosts=HOSTS) as cloud:
        server_id = await make(cloud)
        source = (await cloud.server(server_id))["OS-EXT-SRV-ATTR:host"]
        destination = next(host for host in HOSTS if host != source)
        body = {"aggregate": {"name": "a", "availability_zone": "east"}}
        made = (await cloud.ask("POST", "/os-aggregates", body, user="admin")).body["aggregate"]
        path, add = f"/os-aggregates/{made['id']}/action", {"add_host": {"host": destination}}
        assert (await cloud.ask("POST", path, add, user="admin")).status == 200
        await cloud.look_at_hosts()
        assert await cloud.act(server_id, "migrate", user="admin", version="2.90") == 202
        await cloud.settle()
        assert read(cloud, server_id, destination)["availability_zone"] == "east"


async def test_a_row_of_the_release_before_is_a_server_without_a_drive(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server(user_data=ENCODED)
    row = await cloud.compute.store.read(lambda tx: tx.get_one(Server, server_id))
    assert not row.config_drive
    await act(cloud, server_id, "reboot", {"type": "HARD"})
    assert not file(cloud, server_id).exists()
