"""Servers with their root disk on their host, put away and brought back (specs 001).

Facts/compute.md 1.4 and 4.11. Real guests: tests/hosts/test_shelve_story.py.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from mooring.compute.shelve.loops import offload_shelved
from mooring.errors import Conflict, NoCapacity
from tests.compute.cloud import IMAGE
from tests.compute.elsewhere import refuse
from tests.compute.local_disks import FORMER, HOSTS, LATER
from tests.compute.pictured import LATEST, NAME, Kept, dies, kept_server
from tests.compute.verifying import show
from tests.kept import Keeper

pytestmark = pytest.mark.anyio


@pytest.fixture
async def kept(keeper: Keeper) -> AsyncGenerator[Kept]:
    async with kept_server(keeper) as made:
        yield made


@pytest.fixture
async def on_both(keeper: Keeper, database: str) -> AsyncGenerator[Kept]:
    """The same on each database."""
    async with kept_server(keeper, database=database) as made:
        yield made


@pytest.fixture
async def away(keeper: Keeper) -> AsyncGenerator[Kept]:
    """A server that was put away."""
    async with kept_server(keeper, then=put_away) as made:
        yield made


async def put_away(kept: Kept) -> None:
    assert await kept.act("shelve") == 202


@pytest.fixture
async def shelved(kept: Kept) -> Kept:
    """One that waits at its host."""
    kept.cloud.wait_for_s(3600.0)
    assert await kept.act("shelve") == 202
    return kept


# -- away and back -----------------------------------------------------------------------------


async def test_its_disk_becomes_an_image_and_it_leaves_its_host(away: Kept) -> None:
    await away.is_away()
    assert (await away.cloud.actions(away.moving.server_id))[-1] == ("shelve", None)
    image = (await away.cloud.images())[NAME]
    assert (image["base_image_ref"], image["image_type"]) == (IMAGE, "snapshot")
    assert image["instance_uuid"] == away.moving.server_id
    assert (image["min_disk"], image["virtual_size"]) == (1, 1 << 30)


async def test_it_comes_back_with_what_its_disk_had(away: Kept) -> None:
    assert await away.act("unshelve", {"host": "host2"}, user="admin") == 202
    await away.is_back("host2")
    assert away.reads("host2") == ([FORMER], 1)
    assert (await away.cloud.actions(away.moving.server_id))[-1] == ("unshelve", None)


async def test_a_volume_that_it_got_meanwhile_has_another_name_than_its_root_disk(
    away: Kept,
) -> None:
    volume_id = await away.cloud.make_volume()
    server_id = away.moving.server_id
    assert (await away.cloud.attach(server_id, volume_id, version=LATEST)).status == 200
    await away.cloud.settle()
    assert await away.act("unshelve") == 202
    assert (await away.cloud.server(server_id))["status"] == "ACTIVE"
    path = f"/servers/{server_id}/os-volume_attachments"
    listed = (await away.cloud.ask("GET", path)).body["volumeAttachments"]
    names = [one["device"] for one in listed]
    assert len(set(names)) == len(names)
    assert "/dev/vda" not in names


async def test_it_waits_leaves_and_comes_back_on_each_database(on_both: Kept) -> None:
    kept, cloud = on_both, on_both.cloud
    cloud.wait_for_s(60.0)
    assert await kept.act("shelve") == 202
    await kept.is_shelved()
    cloud.clock.advance(61.0)
    await cloud.look_around()
    await cloud.settle()
    await kept.is_away()
    assert await kept.act("unshelve") == 202
    await kept.is_back()
    assert kept.reads(kept.moving.source) == ([FORMER], 1)


async def test_it_goes_away_again_and_comes_back(away: Kept) -> None:
    for host in HOSTS:
        assert await away.act("unshelve", {"host": host}, user="admin") == 202
        await away.is_back(host)
        assert await away.act("shelve") == 202
        await away.is_away()


@pytest.mark.parametrize("before", ["os-stop", "pause", "suspend"])
async def test_also_one_that_does_not_run(kept: Kept, before: str) -> None:
    assert await kept.act(before) == 202
    assert await kept.act("shelve") == 202
    await kept.is_away()
    assert await kept.act("unshelve") == 202
    await kept.is_back()


async def test_its_disk_moves_afterwards_off_and_running(away: Kept) -> None:
    moving = away.moving
    assert await away.act("unshelve", {"host": "host1"}, user="admin") == 202
    await away.is_back("host1")
    assert await away.cloud.change_image("DELETE", IMAGE) == 204
    for host in ("host2", "host1"):
        away.write((await show(moving))["OS-EXT-SRV-ATTR:host"], LATER)
        await moving.move(host=host, block_migration="auto")
        assert (await moving.host(), await moving.status()) == (host, "completed")
        assert away.reads(host) == ([FORMER, LATER], 1)
    for host in ("host2", "host1"):
        assert await away.act("migrate", user="admin") == 202
        assert await away.act("confirmResize") == 204
        assert (await moving.host(), away.reads(host)) == (host, ([FORMER, LATER], 1))
    await moving.move(host="host2", block_migration="auto")
    assert (await moving.host(), away.reads("host2")) == ("host2", ([FORMER, LATER], 1))
    await away.doctor_finds_nothing()


async def test_it_grows_shrinks_back_and_is_rebuilt_afterwards(away: Kept) -> None:
    assert await away.act("unshelve", {"host": "host1"}, user="admin") == 202
    assert await away.act("resize", {"flavorRef": "2"}) == 202
    where = (await show(away.moving))["OS-EXT-SRV-ATTR:host"]
    assert away.reads(where) == ([FORMER], 10)
    assert await away.act("revertResize") == 202
    assert away.reads("host1") == ([FORMER], 1)
    assert await away.act("rebuild", {"imageRef": IMAGE}) == 202
    assert (await show(away.moving))["status"] == "ACTIVE"
    await away.moving.move(host="host2", block_migration="auto")
    assert await away.moving.host() == "host2"
    assert away.reads("host2")[0] == []
    await away.doctor_finds_nothing()


# -- at its host for a while ---------------------------------------------------------------------


async def test_it_waits_at_its_host_for_as_long_as_the_setting_says(shelved: Kept) -> None:
    cloud = shelved.cloud
    await shelved.is_shelved()
    await offload_shelved.offload_once(cloud.compute)
    await cloud.settle()
    await shelved.is_shelved()
    cloud.clock.advance(3700.0)
    await cloud.look_at_hosts()
    await offload_shelved.offload_once(cloud.compute)
    await cloud.settle()
    await shelved.is_away()


async def test_it_waits_for_ever_where_the_setting_says_so(kept: Kept) -> None:
    kept.cloud.wait_for_s(-1.0)
    assert await kept.act("shelve") == 202
    kept.cloud.clock.advance(1e8)
    await offload_shelved.offload_once(kept.cloud.compute)
    await kept.cloud.settle()
    await kept.is_shelved()


async def test_an_administrator_takes_it_from_its_host(shelved: Kept) -> None:
    assert await shelved.act("shelveOffload") == 403
    assert await shelved.act("shelveOffload", user="admin") == 202
    await shelved.is_away()
    assert (await shelved.cloud.actions(shelved.moving.server_id))[-1] == ("shelveOffload", None)


async def test_it_starts_where_it_is_and_its_image_goes(shelved: Kept) -> None:
    for value in ({"availability_zone": "nova"}, {"availability_zone": None}):
        assert await shelved.act("unshelve", value) == 409
    assert await shelved.act("unshelve", {"host": "host1"}, user="admin") == 409
    await shelved.is_shelved()
    assert await shelved.act("unshelve") == 202
    await shelved.is_back(shelved.moving.source)
    assert shelved.reads(shelved.moving.source) == ([FORMER], 1)


async def test_a_start_that_fails_leaves_it_put_away(shelved: Kept) -> None:
    shelved.cloud.hypervisor(shelved.moving.source).knobs.fail("power_on", Conflict("No."))
    assert await shelved.act("unshelve") == 202
    await shelved.is_shelved()
    assert (await show(shelved.moving))["status"] == "SHELVED"


@pytest.mark.parametrize(
    "action",
    ["shelve", "reboot", "os-start", "os-stop", "pause", "migrate", "rebuild", "resize"],
)
async def test_what_is_put_away_is_not_acted_on(shelved: Kept, action: str) -> None:
    values = {"reboot": {"type": "HARD"}, "rebuild": {"imageRef": IMAGE}}
    value = values.get(action, {"flavorRef": "2"} if action == "resize" else None)
    assert await shelved.act(action, value, user="admin") == 409
    await shelved.is_shelved()


async def test_a_volume_is_attached_and_detached_while_it_waits(shelved: Kept) -> None:
    cloud, moving = shelved.cloud, shelved.moving
    volume_id = await cloud.make_volume()
    assert (await cloud.attach(moving.server_id, volume_id, version="2.19")).status == 409
    assert (await cloud.attach(moving.server_id, volume_id, version=LATEST)).status == 200
    await cloud.settle()
    assert await cloud.volume_status(volume_id) == "in-use"
    assert (await cloud.detach(moving.server_id, moving.volumes[0])).status == 202
    await cloud.settle()
    moving.volumes[:] = [volume_id]
    await shelved.is_shelved()
    assert await shelved.act("shelveOffload", user="admin") == 202
    await shelved.is_away()
    assert await shelved.act("unshelve") == 202
    await shelved.is_back()


# -- hosts that are emptied, and that die --------------------------------------------------------


async def emptied(kept: Kept, how: str) -> dict[str, Any]:
    """Have the server's host emptied; return what is shown in the end."""
    cloud, path = kept.cloud, f"/mooring/{how}/{kept.moving.source}"
    shown = await cloud.ask("PUT", path, user="admin")
    assert shown.status == 202
    for _ in range(9):
        await cloud.look_around()
        await cloud.settle()
        shown = await cloud.ask("GET", path, user="admin")
        if shown.body["status"] != "draining":
            return shown.body
        cloud.clock.advance(11.0)
    raise AssertionError(shown.body)


async def test_a_host_that_is_drained_gives_it_up(shelved: Kept) -> None:
    shown = await emptied(shelved, "drains")
    assert (shown["status"], shown["left"]) == ("drained", [])
    await shelved.is_away()


async def test_a_drain_leaves_one_that_does_not_go(shelved: Kept) -> None:
    hypervisor = shelved.cloud.hypervisor(shelved.moving.source)
    hypervisor.knobs.fail("power_off", Conflict("It will not."), times=9)
    shown = await emptied(shelved, "drains")
    assert shown["status"] == "drained"
    assert "3 tries" in shown["left"][0]["reason"]
    await shelved.is_shelved()


async def test_a_dead_host_that_is_emptied_gives_it_up(shelved: Kept) -> None:
    await dies(shelved)
    shown = await emptied(shelved, "evacuations")
    assert (shown["status"], shown["left"]) == ("drained", [])
    assert (await show(shelved.moving))["status"] == "SHELVED_OFFLOADED"


async def test_one_of_a_dead_host_is_given_up_and_comes_back_elsewhere(shelved: Kept) -> None:
    await dies(shelved)
    assert await shelved.act("evacuate", {}, user="admin") == 409
    assert await shelved.act("shelveOffload", user="admin") == 202
    assert (await show(shelved.moving))["status"] == "SHELVED_OFFLOADED"
    assert await shelved.act("unshelve") == 202
    assert (await show(shelved.moving))["status"] == "ACTIVE"
    assert shelved.reads(shelved.moving.destination) == ([FORMER], 1)


# -- what fails --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step", ["power_off", "capture_disk", "upload_image", "begin_capture", "begin_upload"]
)
async def test_what_fails_on_the_way_leaves_it_stopped_with_its_disk(kept: Kept, step: str) -> None:
    point = f"compute.shelve_server/{step}/forward/before"
    kept.cloud.probe.arm(point, lambda: Conflict("No."))
    assert await kept.act("shelve") == 202
    await kept.is_as_it_was("ACTIVE" if step == "power_off" else "SHUTOFF")
    told = (
        "The server was not put away, and is as its guest is, with its disk. Shelve it again. No."
    )
    assert await kept.why() == told


async def test_a_quota_of_images_that_is_full_is_the_answer(kept: Kept) -> None:
    point = "compute.shelve_server/create_record/forward/before"
    kept.cloud.probe.arm(point, lambda: Conflict("No."))
    assert await kept.act("shelve") == 409
    await kept.is_as_it_was("ACTIVE")


async def test_an_offload_that_fails_is_done_later(kept: Kept) -> None:
    point = "compute.offload_server/reserve_spare/forward/before"
    kept.cloud.probe.arm(point, lambda: Conflict("No."))
    assert await kept.act("shelve") == 202
    await kept.is_shelved()
    await offload_shelved.offload_once(kept.cloud.compute)
    await kept.cloud.settle()
    await kept.is_away()


@pytest.mark.parametrize("point", ["make_root", "define", "power_on"])
async def test_where_no_host_can_have_it_it_stays_away(away: Kept, point: str) -> None:
    for host in HOSTS:
        away.cloud.hypervisor(host).knobs.fail(point, NoCapacity("No room."), times=9)
    assert await away.act("unshelve") == 202
    await away.is_away()
    assert await away.cloud.cached() <= {IMAGE}


async def test_another_host_takes_it_where_the_first_one_cannot(away: Kept) -> None:
    asked = refuse(away.cloud, list(HOSTS), "/servers/", one=True)
    assert await away.act("unshelve") == 202
    assert asked
    await away.is_back(next(host for host in HOSTS if host != asked[0]))


async def test_without_its_image_it_is_in_error_and_is_deleted(away: Kept) -> None:
    image = (await away.cloud.images())[NAME]["id"]
    assert await away.cloud.change_image("DELETE", image) == 204
    assert await away.act("unshelve") == 202
    shown = await show(away.moving)
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("ERROR", None)
    assert "was deleted" in shown["fault"]["message"]
    assert (await away.cloud.ask("DELETE", f"/servers/{away.moving.server_id}")).status == 204
    await away.cloud.settle()
    assert await away.cloud.volume_status(away.moving.volumes[0]) == "available"
    await away.doctor_finds_nothing()


# -- who takes it over -------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["shelved", "away"])
async def test_its_image_goes_with_a_server_that_is_deleted(
    how: str, request: pytest.FixtureRequest, kept: Kept
) -> None:
    if how == "shelved":
        kept.cloud.wait_for_s(3600.0)
    assert await kept.act("shelve") == 202
    assert (await kept.cloud.ask("DELETE", f"/servers/{kept.moving.server_id}")).status == 204
    await kept.cloud.settle()
    assert list(await kept.cloud.images()) == ["tiny"]
    assert await kept.cloud.volume_status(kept.moving.volumes[0]) == "available"
    await kept.doctor_finds_nothing()


async def test_an_image_that_its_user_protected_is_left_to_them(away: Kept) -> None:
    image = (await away.cloud.images())[NAME]["id"]
    change = [{"op": "replace", "path": "/protected", "value": True}]
    media = "application/openstack-images-v2.1-json-patch"
    how = {"headers": {"content-type": media}}
    assert await away.cloud.change_image("PATCH", image, change, **how) == 200
    assert (await away.cloud.ask("DELETE", f"/servers/{away.moving.server_id}")).status == 204
    await away.cloud.settle()
    assert sorted(await away.cloud.images()) == [NAME, "tiny"]


async def test_a_reset_takes_it_as_it_is_and_its_image_goes(shelved: Kept) -> None:
    reset = {"state": "active"}
    assert await shelved.act("os-resetState", reset, user="admin", version="2.90") == 202
    assert list(await shelved.cloud.images()) == ["tiny"]
    assert shelved.reads(shelved.moving.source) == ([FORMER], 1)
