"""Images that have the disk of a server which was put away: none is lost that is the only copy."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.compute.cloud import IMAGE
from tests.compute.local_disks import FORMER, HOSTS
from tests.compute.pictured import NAME, Kept, PicturedCloud, dies, make_kept
from tests.compute.verifying import show

pytestmark = pytest.mark.anyio


@pytest.fixture
async def shelved(tmp_path: Path, database: str) -> AsyncGenerator[Kept]:
    """A server that waits at its host, on each database."""
    async with PicturedCloud(tmp_path, hosts=HOSTS, database=database) as cloud:
        kept = await make_kept(cloud)
        cloud.wait_for_s(3600.0)
        assert await kept.act("shelve") == 202
        yield kept


async def test_it_stays_at_its_host_when_its_image_was_deleted(shelved: Kept) -> None:
    cloud, host = shelved.cloud, shelved.moving.source
    image = (await cloud.images())[NAME]["id"]
    assert await cloud.change_image("DELETE", image) == 204
    assert await shelved.act("shelveOffload", user="admin") == 202
    shown = await show(shelved.moving)
    assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("SHELVED", host)
    (action, message), *_ = reversed(await cloud.actions(shelved.moving.server_id))
    assert (action, message) == ("shelveOffload", "Error")
    assert shelved.reads(host) == ([FORMER], 1)
    assert await shelved.act("unshelve") == 202
    await shelved.is_back(host)


async def test_a_hard_reboot_makes_a_lost_disk_of_its_image(shelved: Kept) -> None:
    cloud, host, server_id = shelved.cloud, shelved.moving.source, shelved.moving.server_id
    await cloud.agents[host].agent.hypervisor.remove(server_id)
    reset = {"state": "active"}
    assert await shelved.act("os-resetState", reset, user="admin") == 202
    assert NAME in await cloud.images()
    assert await shelved.act("reboot", {"type": "HARD"}) == 202
    assert (await show(shelved.moving))["status"] == "ACTIVE"
    assert shelved.reads(host) == ([FORMER], 1)
    assert await shelved.act("os-resetState", reset, user="admin") == 202
    assert list(await cloud.images()) == ["tiny"]
    assert shelved.reads(host) == ([FORMER], 1)
    await shelved.doctor_finds_nothing()


async def test_no_evacuation_makes_the_disk_of_another_image(shelved: Kept) -> None:
    await dies(shelved)
    reset = {"state": "error"}
    assert await shelved.act("os-resetState", reset, user="admin") == 202
    answer = await shelved.cloud.ask(
        "POST", f"/servers/{shelved.moving.server_id}/action", {"evacuate": {}}, user="admin"
    )
    assert (answer.status, "is in image" in answer.fault) == (409, True)
    assert NAME in await shelved.cloud.images()


async def test_a_server_whose_first_image_is_gone_gets_another_size_on_its_host(
    shelved: Kept,
) -> None:
    cloud, moving = shelved.cloud, shelved.moving
    other = moving.destination
    assert await shelved.act("shelveOffload", user="admin") == 202
    assert await shelved.act("unshelve", {"host": other}, user="admin") == 202
    await shelved.is_back(other)
    assert await cloud.change_image("DELETE", IMAGE) == 204
    size = {"flavor": {"name": "same", "vcpus": 2, "ram": 1024, "disk": 1, "id": "same"}}
    assert (await cloud.ask("POST", "/flavors", size, user="admin")).status == 200
    for word, power in (("revertResize", 202), ("confirmResize", 204)):
        assert await shelved.act("resize", {"flavorRef": "same"}) == 202
        shown = await show(moving)
        assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("VERIFY_RESIZE", other)
        assert await shelved.act(word) == power
        assert (await show(moving))["status"] == "ACTIVE"
        assert shelved.reads(other) == ([FORMER], 1)
    assert (await show(moving))["flavor"]["vcpus"] == 2
    await shelved.doctor_finds_nothing()
