"""Backups of servers: how many images of a type are kept, and which."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.errors import NoCapacity
from tests.answers import Answer
from tests.cloud import SimulatedCloud
from tests.compute import picturing
from tests.compute.picturing import IMAGES

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(tmp_path: Path, anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path) as opened:
        yield opened


async def make_server(cloud: SimulatedCloud) -> str:
    return await picturing.make_server(cloud, imageRef=await picturing.make_base(cloud))


async def back_up(
    cloud: SimulatedCloud, server_id: str, keep: int, kind: str = "daily", **how: Any
) -> Answer:
    value = {"name": "copy", "backup_type": kind, "rotation": keep, "metadata": {"role": "db"}}
    version = how.pop("version", "2.45")
    answer = await picturing.act(cloud, server_id, "createBackup", value, version=version, **how)
    await cloud.settle()
    return answer


async def copies(cloud: SimulatedCloud, kind: str = "daily") -> list[str]:
    """Return the ids of the images of a type of backup, the newest first."""
    query = f"?backup_type={kind}&sort=created_at:desc"
    return [one["id"] for one in (await cloud.ask("GET", f"{IMAGES}{query}")).key("images")]


async def take_turns(
    cloud: SimulatedCloud, server_id: str, keep: int, times: int, kind: str = "daily"
) -> list[str]:
    """Make backups one after the other; return their images."""
    made: list[str] = []
    for _ in range(times):
        made.append((await back_up(cloud, server_id, keep, kind)).key("image_id"))
        await cloud.pass_time(1.5)
    return made


@pytest.mark.parametrize("other", ["weekly", ""])
async def test_the_oldest_of_its_type_go(cloud: SimulatedCloud, other: str) -> None:
    server_id = await make_server(cloud)
    weekly = await take_turns(cloud, server_id, 1, 2, other)
    made = await take_turns(cloud, server_id, 2, 4)
    assert await copies(cloud) == [made[3], made[2]]
    assert await copies(cloud, other) == weekly[1:]
    image = (await cloud.ask("GET", f"{IMAGES}/{made[3]}")).body
    told = {key: image[key] for key in ("status", "image_type", "backup_type", "role")}
    assert told == {
        "status": "active",
        "image_type": "backup",
        "backup_type": "daily",
        "role": "db",
    }
    assert image["instance_uuid"] == server_id
    shown = await picturing.show(cloud, server_id)
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("ACTIVE", None)


async def test_images_of_other_servers_and_other_images_stay(cloud: SimulatedCloud) -> None:
    first, second = await make_server(cloud), await make_server(cloud)
    others = await take_turns(cloud, second, 5, 2)
    await picturing.picture(cloud, first)
    await cloud.settle()
    made = await take_turns(cloud, first, 1, 2)
    assert {*await copies(cloud)} == {*others, made[1]}
    pictures = await cloud.ask("GET", f"{IMAGES}?image_type=snapshot")
    assert len(pictures.key("images")) == 1


async def test_images_of_another_project_that_say_so_stay(cloud: SimulatedCloud) -> None:
    server_id = await make_server(cloud)
    said = {"image_type": "backup", "backup_type": "daily", "instance_uuid": server_id}
    foreign = {"name": "theirs", "disk_format": "raw", "container_format": "bare", **said}
    theirs = (await cloud.ask("POST", IMAGES, foreign, user="admin")).key("id")
    await back_up(cloud, server_id, 0)
    assert await copies(cloud) == []
    assert (await cloud.ask("GET", f"{IMAGES}/{theirs}", user="admin")).status == 200


async def test_who_keeps_none_has_none(cloud: SimulatedCloud) -> None:
    server_id = await make_server(cloud)
    await take_turns(cloud, server_id, 3, 2)
    answer = await back_up(cloud, server_id, 0)
    assert (answer.status, answer.content) == (202, b"")
    assert "location" not in answer.headers
    assert await copies(cloud) == []


async def test_older_versions_are_told_where_it_is(cloud: SimulatedCloud) -> None:
    server_id = await make_server(cloud)
    answer = await back_up(cloud, server_id, 1, version="2.44")
    assert (answer.status, answer.content) == (202, b"")
    assert answer.headers["location"].rpartition("/images/")[2] == (await copies(cloud))[0]


async def test_a_protected_one_is_kept_beside(cloud: SimulatedCloud) -> None:
    server_id = await make_server(cloud)
    (first,) = await take_turns(cloud, server_id, 1, 1)
    await cloud.ask(
        "PATCH",
        f"{IMAGES}/{first}",
        [{"op": "replace", "path": "/protected", "value": True}],
        headers={"content-type": "application/openstack-images-v2.1-json-patch"},
    )
    made = await take_turns(cloud, server_id, 1, 2)
    assert await copies(cloud) == [made[1], first]
    assert (await picturing.show(cloud, server_id))["OS-EXT-STS:task_state"] is None


async def test_a_backup_that_fails_costs_no_older_one(cloud: SimulatedCloud) -> None:
    server_id = await make_server(cloud)
    made = await take_turns(cloud, server_id, 2, 2)
    hypervisor: Any = cloud.agents["h1"].agent.hypervisor
    hypervisor.knobs.fail("capture_root", NoCapacity("The disk is full."))
    await back_up(cloud, server_id, 1)
    assert await copies(cloud) == [made[1], made[0]]


async def test_a_server_that_boots_from_a_volume_has_none(cloud: SimulatedCloud) -> None:
    refused = await back_up(cloud, await picturing.make_booted(cloud), 1)
    assert refused.status == 400
    assert "volume-backed" in refused.fault


@pytest.mark.parametrize("rotation", [-1, "x", None])
async def test_a_rotation_that_is_none_is_refused(cloud: SimulatedCloud, rotation: Any) -> None:
    server_id = await make_server(cloud)
    value = {"name": "copy", "backup_type": "daily", "rotation": rotation}
    assert (await picturing.act(cloud, server_id, "createBackup", value)).status == 400
    del value["rotation"]
    assert (await picturing.act(cloud, server_id, "createBackup", value)).status == 400
