"""os-extend of attached volumes: each case of spec 000, and what compute may answer."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mooring.agent.settings import PoolSettings
from mooring.errors import Invalid
from tests.volume.cloud import SERVER, SERVER_2, VolumeCloud
from tests.volume.growth import Harbour

pytestmark = pytest.mark.anyio
FAILED = ["VOLUME_VOLUME_007_010"]


@pytest.fixture
def harbour(cloud: VolumeCloud) -> Harbour:
    return Harbour(cloud)


async def open_storage_that_grows(harbour: Harbour) -> None:
    """Set the pool up as one whose storage grows volumes that a guest has open."""
    pool = PoolSettings(driver="simulated", name="fast", online_extend="storage")
    await harbour.cloud.change_host("host1", pools=(pool,))


async def test_below_3_42_an_attached_volume_is_refused(harbour: Harbour) -> None:
    volume_id = await harbour.made()
    answer = await harbour.extend(volume_id, version="3.41")
    assert answer.status == 400
    assert "must be 'available' to extend, currently in-use" in answer.fault
    assert await harbour.state(volume_id) == ("in-use", 1)
    assert await harbour.gigabytes() == (1, 0)
    assert harbour.nova.taken == []


async def test_when_the_driver_fails_it_is_completed_with_error(harbour: Harbour) -> None:
    volume_id = await harbour.made()
    harbour.cloud.storage.knobs.fail("extend", Invalid("This storage does not grow."))
    assert (await harbour.extend(volume_id)).status == 202
    assert await harbour.state(volume_id) == ("error_extending", 1)
    assert await harbour.messages() == FAILED
    assert harbour.nova.taken == []
    assert await harbour.is_at_peace()


async def test_its_owner_asks_again_for_an_attached_one_that_failed(harbour: Harbour) -> None:
    volume_id = await harbour.made()
    harbour.cloud.storage.knobs.fail("extend", Invalid("This storage does not grow."))
    assert (await harbour.extend(volume_id)).status == 202
    assert await harbour.state(volume_id) == ("error_extending", 1)
    assert (await harbour.extend(volume_id, version="3.41")).status == 400
    await open_storage_that_grows(harbour)
    assert (await harbour.extend(volume_id)).status == 202
    assert await harbour.state(volume_id) == ("in-use", 2)
    assert await harbour.is_at_peace()


async def test_when_the_driver_succeeds_attached_the_server_is_told_at_2_51(
    harbour: Harbour,
) -> None:
    await open_storage_that_grows(harbour)
    volume_id = await harbour.made()
    seen: list[tuple[str, int]] = []

    async def look() -> None:
        seen.append(await harbour.state(volume_id))

    harbour.nova.meanwhile = look
    assert (await harbour.extend(volume_id, 3)).status == 202
    (taken,) = harbour.nova.taken
    assert taken.version == "2.51"
    assert taken.events == [{"server_uuid": SERVER, "name": "volume-extended", "tag": volume_id}]
    assert seen == [("in-use", 3)], "told before the size was written"
    assert await harbour.messages() == []
    assert await harbour.is_at_peace()


async def test_a_stopped_guest_s_volume_grows_like_any_other(harbour: Harbour) -> None:
    volume_id = await harbour.cloud.make()
    await harbour.attach(volume_id, running=False)
    await harbour.extend(volume_id)
    assert await harbour.state(volume_id) == ("in-use", 2)
    assert [taken.version for taken in harbour.nova.taken] == ["2.51"]
    assert await harbour.is_at_peace()


@pytest.mark.parametrize("answer", [(403, {}), (207, {"events": []}), (500, {}), (200, b"no")])
async def test_an_event_that_fails_afterwards_leaves_the_volume_in_use(
    harbour: Harbour, answer: tuple[int, Any]
) -> None:
    await open_storage_that_grows(harbour)
    volume_id = await harbour.made()
    harbour.nova.answers = [answer] * 10
    await harbour.extend(volume_id)
    assert await harbour.state(volume_id) == ("in-use", 2)
    assert await harbour.messages() == ["VOLUME_VOLUME_007_009"]
    assert await harbour.is_at_peace()


async def test_when_no_server_has_it_the_signal_is_a_failure(harbour: Harbour) -> None:
    volume_id = await harbour.made()
    await harbour.reset(volume_id, status="available", attach_status="detached")
    await harbour.extend(volume_id)
    assert await harbour.state(volume_id) == ("error_extending", 1)
    assert await harbour.messages() == FAILED
    assert harbour.nova.taken == []
    assert await harbour.is_at_peace()


async def test_when_several_servers_have_it_the_signal_is_a_failure(harbour: Harbour) -> None:
    name = await harbour.cloud.type_with(multiattach="<is> True")
    volume_id = await harbour.made(volume_type=name)
    await harbour.cloud.attach(volume_id, SERVER_2)
    await harbour.extend(volume_id)
    assert await harbour.state(volume_id) == ("error_extending", 1)
    assert await harbour.messages() == FAILED
    assert harbour.nova.taken == []


async def test_a_file_that_several_servers_have_is_not_made_longer_behind_them(
    harbour: Harbour,
) -> None:
    await open_storage_that_grows(harbour)
    name = await harbour.cloud.type_with(multiattach="<is> True")
    volume_id = await harbour.made(volume_type=name)
    await harbour.cloud.attach(volume_id, SERVER_2)
    assert (await harbour.extend(volume_id)).status == 202
    assert await harbour.state(volume_id) == ("error_extending", 1)
    assert harbour.cloud.storage.knobs.passed.get("extend") is None
    assert harbour.nova.taken == []


async def test_two_attachments_of_one_server_count_as_one(harbour: Harbour) -> None:
    name = await harbour.cloud.type_with(multiattach="<is> True")
    volume_id = await harbour.made(volume_type=name)
    await harbour.cloud.attach(volume_id, SERVER)
    await harbour.extend(volume_id)
    assert await harbour.state(volume_id) == ("extending", 1)
    (taken,) = harbour.nova.taken
    assert [event["server_uuid"] for event in taken.events] == [SERVER]
    await harbour.grow(volume_id)
    assert (await harbour.complete(volume_id)).status == 202
    assert await harbour.state(volume_id) == ("in-use", 2)


async def test_when_one_server_has_it_compute_is_told_at_2_105_and_awaited(
    harbour: Harbour,
) -> None:
    volume_id = await harbour.made()
    seen: list[dict[str, str]] = []

    async def look() -> None:
        seen.append((await harbour.cloud.show(volume_id, version="3.71"))["metadata"])

    harbour.nova.meanwhile = look
    assert (await harbour.extend(volume_id, 3)).status == 202
    assert await harbour.state(volume_id) == ("extending", 1)
    assert await harbour.gigabytes() == (1, 2)
    (taken,) = harbour.nova.taken
    assert taken.version == "2.105"
    assert taken.events == [{"server_uuid": SERVER, "name": "volume-extended", "tag": volume_id}]
    assert [metadata["extend_new_size"] for metadata in seen] == ["3"]
    await harbour.grow(volume_id, 3)
    assert (await harbour.complete(volume_id)).status == 202
    assert await harbour.state(volume_id) == ("in-use", 3)
    assert len(harbour.nova.taken) == 1, "what compute has done it is not told again"
    assert await harbour.messages() == []
    assert await harbour.is_at_peace()


@pytest.mark.parametrize(
    "answer",
    [
        (403, {"forbidden": {"message": "No."}}),
        (404, {"itemNotFound": {"message": "No."}}),
        (406, {"computeFault": {"message": "No."}}),
        (200, {}),
        (200, {"events": "none"}),
        (200, {"events": []}),
        (200, {"events": [{"server_uuid": SERVER, "name": "volume-extended"}]}),
        *[
            (207, {"events": [{"server_uuid": SERVER, "name": "volume-extended", "code": code}]})
            for code in (400, 404, 422)
        ],
    ],
)
async def test_an_event_that_is_refused_is_rolled_back(
    harbour: Harbour, answer: tuple[int, Any]
) -> None:
    volume_id = await harbour.made()
    harbour.nova.answers = [answer]
    assert (await harbour.extend(volume_id)).status == 202
    assert await harbour.state(volume_id) == ("error_extending", 1)
    assert len(harbour.nova.taken) == 1
    assert harbour.nova.buried == [harbour.nova.taken[0].operation]
    assert await harbour.messages() == FAILED
    assert "extend_new_size" not in (await harbour.cloud.show(volume_id))["metadata"]
    assert (await harbour.complete(volume_id)).status == 400
    assert await harbour.is_at_peace()


@pytest.mark.parametrize("answer", [(500, {}), (502, b""), (503, {}), (200, b"<html>"), (429, {})])
async def test_an_answer_that_says_nothing_is_asked_again_as_the_same_operation(
    harbour: Harbour, answer: tuple[int, Any]
) -> None:
    volume_id = await harbour.made()
    harbour.nova.answers = [answer] * 3
    await harbour.extend(volume_id)
    assert await harbour.state(volume_id) == ("extending", 1)
    assert len(harbour.nova.taken) == 4
    assert len({taken.operation for taken in harbour.nova.taken}) == 1
    await harbour.grow(volume_id)
    await harbour.complete(volume_id)
    assert await harbour.state(volume_id) == ("in-use", 2)
    assert await harbour.is_at_peace()


async def test_a_compute_service_that_stays_silent_is_given_up(harbour: Harbour) -> None:
    volume_id = await harbour.made()
    harbour.nova.answers = [(503, {})] * 50
    await harbour.extend(volume_id)
    await harbour.cloud.settle()
    assert await harbour.state(volume_id) == ("error_extending", 1)
    assert harbour.nova.buried == [harbour.nova.taken[0].operation]
    assert await harbour.messages() == FAILED
    assert await harbour.is_at_peace()


@pytest.mark.parametrize("maximum", [(2, 51), (2, 104)])
async def test_a_compute_service_without_completion_ends_right(
    harbour: Harbour, maximum: tuple[int, int]
) -> None:
    harbour.nova.maximum, harbour.nova.knows_operations = maximum, False
    volume_id = await harbour.made()
    await harbour.extend(volume_id)
    assert await harbour.state(volume_id) == ("error_extending", 1)
    assert await harbour.messages() == FAILED
    assert await harbour.is_at_peace()


async def test_without_a_version_for_completion_nobody_is_told(harbour: Harbour) -> None:
    volume_id = await harbour.made()
    settings = harbour.cloud.volume.settings
    harbour.cloud.volume.settings = replace(settings, extend_completion_version="")
    await harbour.extend(volume_id)
    assert harbour.nova.taken == []
    assert await harbour.state(volume_id) == ("error_extending", 1)
    assert await harbour.is_at_peace()


async def test_an_extend_that_waits_is_listed_with_its_steps(harbour: Harbour) -> None:
    volume_id = await harbour.made()
    await harbour.extend(volume_id)
    listed = await harbour.cloud.ask("GET", "/mooring/operations", user="admin")
    (operation,) = listed.body["operations"]
    assert (operation["name"], operation["status"]) == ("volume.extend_volume", "waiting")
    assert operation["step"] == "await_completion"
    assert operation["locks"] == [f"volume:{volume_id}"]
    shown = await harbour.cloud.ask("GET", f"/mooring/operations/{operation['id']}", user="admin")
    steps = [line["step"] for line in shown.body["timeline"]]
    assert steps == ["check_capacity", "ask_storage", "hand_over", "send_event"]
