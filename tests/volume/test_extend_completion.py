"""os-extend_volume_completion: who may say it, when, and what comes of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from mooring.fence.operation import HEADER
from tests.volume.cloud import UNKNOWN, VolumeCloud
from tests.volume.growth import Harbour

pytestmark = pytest.mark.anyio
COMPLETE = {HEADER: "12345678-1234-4234-8234-123456789abc.complete;1;5"}


@pytest.fixture
async def harbour(cloud: VolumeCloud) -> Harbour:
    return Harbour(cloud)


@pytest.fixture
async def volume_id(harbour: Harbour) -> str:
    """A volume whose completion is awaited, from 1 GiB to 2."""
    made = await harbour.made()
    await harbour.extend(made)
    assert await harbour.state(made) == ("extending", 1)
    return made


async def leave(harbour: Harbour, volume_id: str) -> None:
    """Let the guest that has a volume go, and its attachment with it."""
    agent = harbour.cloud.known_agents["host1"]
    for guest in await agent.list_servers():
        await agent.delete_server(guest.server_id)
    for attachment_id in await harbour.cloud.attachments(volume_id):
        assert (await harbour.cloud.detach(attachment_id)).status == 200


async def test_success_commits_the_reservation_size_and_status(
    harbour: Harbour, volume_id: str
) -> None:
    await harbour.grow(volume_id)
    answer = await harbour.complete(volume_id)
    assert (answer.status, answer.content) == (202, b"")
    assert await harbour.state(volume_id) == ("in-use", 2)
    assert await harbour.gigabytes() == (2, 0)
    pools = await harbour.cloud.ask("GET", "/scheduler-stats/get_pools?detail=1", user="admin")
    assert pools.body["pools"][0]["capabilities"]["allocated_capacity_gb"] == 2
    assert "extend_new_size" not in (await harbour.cloud.show(volume_id))["metadata"]
    assert await harbour.is_at_peace()


async def test_a_volume_that_was_detached_meanwhile_becomes_available(
    harbour: Harbour, volume_id: str
) -> None:
    await harbour.grow(volume_id)
    await leave(harbour, volume_id)
    assert await harbour.state(volume_id) == ("extending", 1)
    await harbour.complete(volume_id)
    assert await harbour.state(volume_id) == ("available", 2)
    assert await harbour.is_at_peace()


async def test_error_rolls_the_reservation_back_and_is_logged(
    harbour: Harbour, volume_id: str
) -> None:
    with capture_logs() as logged:
        assert (await harbour.complete(volume_id, error=True)).status == 202
    (line,) = [one for one in logged if one["log_level"] == "error"]
    assert (line["event"], line["volume"]) == ("volume did not grow", volume_id)
    assert await harbour.state(volume_id) == ("error_extending", 1)
    assert await harbour.gigabytes() == (1, 0)
    assert await harbour.messages() == ["VOLUME_VOLUME_007_010"]
    assert "extend_new_size" not in (await harbour.cloud.show(volume_id))["metadata"]
    assert await harbour.is_at_peace()


async def test_error_of_a_file_that_has_grown_is_success_with_a_message(
    harbour: Harbour, volume_id: str
) -> None:
    await harbour.grow(volume_id)
    await harbour.complete(volume_id, error=True)
    assert await harbour.state(volume_id) == ("in-use", 2)
    assert await harbour.gigabytes() == (2, 0)
    assert await harbour.messages() == ["VOLUME_VOLUME_007_009"]
    assert await harbour.is_at_peace()


@pytest.mark.parametrize("comes_first", ["the error", "the end of the attachment"])
async def test_error_for_a_server_that_leaves_gives_the_volume_its_rest(
    harbour: Harbour, volume_id: str, comes_first: str
) -> None:
    if comes_first == "the error":
        await harbour.complete(volume_id, error=True)
    await leave(harbour, volume_id)
    if comes_first == "the end of the attachment":
        assert await harbour.state(volume_id) == ("extending", 1)
        await harbour.complete(volume_id, error=True)
    assert await harbour.state(volume_id) == ("available", 1)
    assert await harbour.gigabytes() == (1, 0)
    assert await harbour.messages() == ["VOLUME_VOLUME_007_010"]
    assert await harbour.is_at_peace()


async def test_a_completion_is_refused_in_any_status_but_extending(
    harbour: Harbour, volume_id: str
) -> None:
    await harbour.cloud.set(volume_id, status="in-use")
    assert (await harbour.complete(volume_id)).status == 400
    await harbour.cloud.set(volume_id, status="extending")
    await harbour.grow(volume_id)
    assert (await harbour.complete(volume_id)).status == 202
    assert await harbour.state(volume_id) == ("in-use", 2)


async def test_success_without_a_grown_file_is_not_believed(
    harbour: Harbour, volume_id: str
) -> None:
    assert (await harbour.complete(volume_id)).status == 202
    assert await harbour.state(volume_id) == ("error_extending", 1)
    assert harbour.nova.buried == [harbour.nova.taken[0].operation]
    assert await harbour.is_at_peace()


async def test_of_two_completions_one_wins(harbour: Harbour, volume_id: str) -> None:
    await harbour.grow(volume_id)
    asked = (harbour.complete(volume_id), harbour.complete(volume_id, error=True))
    codes = [answer.status for answer in await asyncio.gather(*asked)]
    assert sorted(codes) == [202, 400]
    status, size = await harbour.state(volume_id)
    assert (status, size) == ("in-use", 2)
    assert (await harbour.complete(volume_id)).status == 400
    assert await harbour.is_at_peace()


async def test_the_same_operation_twice_is_answered_alike(harbour: Harbour, volume_id: str) -> None:
    await harbour.grow(volume_id)
    first = await harbour.complete(volume_id, headers=COMPLETE)
    second = await harbour.complete(volume_id, headers=COMPLETE)
    assert (first.status, second.status) == (202, 202)
    assert await harbour.state(volume_id) == ("in-use", 2)


@pytest.mark.parametrize(
    "value",
    [
        {"error": "false"},
        {"error": "true"},
        {"error": None},
        {"error": 0},
        {"error": False, "size": 9},
        None,
        [],
        "error",
    ],
)
async def test_a_body_that_makes_no_sense_is_refused(
    harbour: Harbour, volume_id: str, value: Any
) -> None:
    how = {"user": "compute", "version": "3.71"}
    answer = await harbour.cloud.act(volume_id, "os-extend_volume_completion", value, **how)
    assert answer.status == 400
    assert await harbour.state(volume_id) == ("extending", 1)
    assert (await harbour.complete(volume_id, error=True)).status == 202


@pytest.mark.parametrize(
    ("user", "version", "status"),
    [("member", "3.71", 403), ("stranger", "3.71", 403), ("compute", "3.70", 404)],
)
async def test_who_may_not_complete_changes_nothing(
    harbour: Harbour, volume_id: str, user: str, version: str, status: int
) -> None:
    answer = await harbour.complete(volume_id, user=user, version=version)
    assert answer.status == status
    assert await harbour.state(volume_id) == ("extending", 1)
    assert await harbour.gigabytes() == (1, 1)


async def test_an_administrator_may_complete(harbour: Harbour, volume_id: str) -> None:
    await harbour.grow(volume_id)
    assert (await harbour.complete(volume_id, user="admin")).status == 202
    assert await harbour.state(volume_id) == ("in-use", 2)


async def test_a_service_completes_volumes_of_every_project_without_being_an_administrator(
    harbour: Harbour, volume_id: str
) -> None:
    await harbour.grow(volume_id)
    assert (await harbour.complete(volume_id, user="service")).status == 202
    assert await harbour.state(volume_id) == ("in-use", 2)
    assert (await harbour.complete(UNKNOWN, user="service")).status == 404


async def test_an_unknown_volume_is_not_found(harbour: Harbour) -> None:
    assert (await harbour.complete(UNKNOWN)).status == 404


@pytest.mark.parametrize("status", ["available", "extending", "error_extending"])
async def test_a_completion_that_nobody_asked_for_is_refused(harbour: Harbour, status: str) -> None:
    volume_id = await harbour.cloud.make()
    await harbour.reset(volume_id, status=status)
    for error in (True, False):
        answer = await harbour.complete(volume_id, error=error)
        assert answer.status == 400
        assert "does not wait for the completion" in answer.fault
    assert await harbour.state(volume_id) == (status, 1)


async def test_a_size_that_is_no_growth_any_more_is_refused(
    harbour: Harbour, volume_id: str
) -> None:
    await harbour.cloud.set(volume_id, extend_new_size=1)
    assert (await harbour.complete(volume_id)).status == 400
    await harbour.cloud.set(volume_id, extend_new_size=2, extend_reservations=None)
    assert (await harbour.complete(volume_id)).status == 400
    assert await harbour.state(volume_id) == ("extending", 1)


async def test_everybody_who_sees_the_volume_sees_the_size_to_reach(
    harbour: Harbour, volume_id: str
) -> None:
    await harbour.cloud.set(volume_id, labels={"extend_new_size": "7", "k": "v"})
    for user in ("reader", "member", "admin", "compute"):
        shown = (await harbour.cloud.show(volume_id, user=user))["metadata"]
        assert shown == {"k": "v", "extend_new_size": "2", "attached_mode": "rw"}
        answer = await harbour.cloud.ask("GET", f"/volumes/{volume_id}/metadata", user=user)
        assert answer.body["metadata"] == {"k": "v", "extend_new_size": "2"}
    one = await harbour.cloud.ask("GET", f"/volumes/{volume_id}/metadata/extend_new_size")
    assert one.body == {"meta": {"extend_new_size": "2"}}


@pytest.mark.parametrize("key", ["extend_new_size", "extend_reservations"])
async def test_users_can_neither_change_nor_store_what_belongs_to_the_extend(
    harbour: Harbour, volume_id: str, key: str
) -> None:
    path, ask = f"/volumes/{volume_id}", harbour.cloud.ask
    for method, target, body in (
        ("POST", f"{path}/metadata", {"metadata": {key: "9", "other": "x"}}),
        ("PUT", f"{path}/metadata", {"metadata": {key: "9"}}),
        ("PUT", f"{path}/metadata/{key}", {"meta": {key: "9"}}),
        ("PUT", path, {"volume": {"metadata": {key: "9"}}}),
        ("POST", "/volumes", {"volume": {"size": 1, "metadata": {key: "9"}}}),
    ):
        assert (await ask(method, target, body)).status == 400, (method, target)
    assert (await ask("DELETE", f"{path}/metadata/{key}")).status == 404
    assert (await ask("PUT", f"{path}/metadata", {"metadata": {"k": "v"}})).status == 200
    shown = (await harbour.cloud.show(volume_id))["metadata"]
    assert shown == {"k": "v", "extend_new_size": "2", "attached_mode": "rw"}
    assert await harbour.cloud.count_volumes() == 1
    await harbour.grow(volume_id)
    await harbour.complete(volume_id)
    assert await harbour.state(volume_id) == ("in-use", 2)


async def test_what_is_shown_among_the_metadata_is_not_stored(harbour: Harbour) -> None:
    volume_id = await harbour.cloud.make(metadata={"readonly": "True", "k": "v"})
    body = {"metadata": {"attached_mode": "ro", "more": "x"}}
    answer = await harbour.cloud.ask("POST", f"/volumes/{volume_id}/metadata", body)
    assert answer.body["metadata"] == {"k": "v", "more": "x"}
    assert (await harbour.cloud.show(volume_id))["metadata"] == {"k": "v", "more": "x"}
