"""`os-reimage`: another image in the place of everything (specs 002 and 004)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.clients.compute import EventAnswer, ExternalEvent
from mooring.clients.session import Caller
from mooring.errors import Invalid, MooringError, NoCapacity, NotFound, Unavailable
from mooring.fence.operation import Operation
from mooring.volume.app import SERVICE
from mooring.volume.reimage.reimage import KEEP
from tests.answers import Answer
from tests.callers import Tokens
from tests.cloud import URL
from tests.volume.cloud import IMAGE, SERVER, SERVER_2, UNKNOWN, Compute, VolumeCloud

pytestmark = pytest.mark.anyio
OTHER_IMAGE = "44444444-4444-4444-8444-444444444444"
GIB = 1024**3


class Listener(Compute):
    """A compute service that hears events, and answers them with `code`."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[tuple[str, str, Any, Any]] = []
        self.code = 200
        self.error: MooringError | None = None

    async def send_events(
        self,
        caller: Caller,
        events: Sequence[ExternalEvent],
        *,
        version: str = "",
        operation: Operation | None = None,
    ) -> list[EventAnswer]:
        assert caller is None
        assert operation is not None
        if self.error is not None:
            raise self.error
        self.heard += [(one.server_uuid, one.name, one.status, one.tag) for one in events]
        return [EventAnswer(one.server_uuid, one.name, self.code, "", "") for one in events]


@pytest.fixture
def listener(cloud: VolumeCloud) -> Listener:
    heard = Listener()
    cloud.compute = cloud.neighbour = cloud.volume.compute = heard
    cloud.shelf.put(OTHER_IMAGE, bytes(1024 * 1024), name="other", os_type="linux")
    return heard


async def reimage(
    cloud: VolumeCloud, volume_id: str, image_id: str = OTHER_IMAGE, **more: Any
) -> Answer:
    how = {"version": "3.68", "user": "member"} | {
        key: more.pop(key) for key in ("version", "user") if key in more
    }
    answer = await cloud.act(volume_id, "os-reimage", {"image_id": image_id, **more}, **how)
    await cloud.settle()
    return answer


async def messages(cloud: VolumeCloud) -> list[str]:
    listed = (await cloud.ask("GET", "/messages")).body["messages"]
    return sorted(message["event_id"] for message in listed)


async def make_reserved(cloud: VolumeCloud, **fields: Any) -> tuple[str, str]:
    volume_id = await cloud.make(imageRef=IMAGE, **fields)
    attachment_id = (await cloud.reserve(volume_id)).body["attachment"]["id"]
    return volume_id, attachment_id


async def test_an_available_volume_gets_the_image_and_all_of_its_metadata(
    cloud: VolumeCloud, listener: Listener
) -> None:
    volume_id = await cloud.make(imageRef=IMAGE)
    assert (await reimage(cloud, volume_id)).status == 202
    shown = await cloud.show(volume_id)
    assert (shown["status"], shown["bootable"]) == ("available", "true")
    assert shown["volume_image_metadata"]["image_id"] == OTHER_IMAGE
    assert shown["volume_image_metadata"]["os_type"] == "linux"
    assert "hw_disk_bus" not in shown["volume_image_metadata"]
    assert cloud.storage.content(volume_id) == OTHER_IMAGE
    assert listener.heard == []
    assert await cloud.complaints() == []


async def test_an_empty_volume_becomes_bootable(cloud: VolumeCloud, listener: Listener) -> None:
    volume_id = await cloud.make()
    assert (await reimage(cloud, volume_id)).status == 202
    assert (await cloud.show(volume_id))["bootable"] == "true"


async def test_an_image_without_data_is_refused_and_the_volume_stays_as_it_is(
    cloud: VolumeCloud, listener: Listener
) -> None:
    volume_id = await cloud.make(imageRef=IMAGE)
    cloud.shelf.put(OTHER_IMAGE, b"", name="of volumes", block_device_mapping="[]")
    refused = await reimage(cloud, volume_id)
    assert refused.status == 400
    assert "has no data" in refused.fault
    assert await cloud.status(volume_id) == "available"
    assert cloud.storage.content(volume_id) == IMAGE


async def test_a_reserved_volume_stays_reserved_and_its_server_is_told(
    cloud: VolumeCloud, listener: Listener
) -> None:
    volume_id, attachment_id = await make_reserved(cloud)
    assert (await reimage(cloud, volume_id, reimage_reserved=True)).status == 202
    assert await cloud.status(volume_id) == "reserved"
    assert await cloud.attachments(volume_id) == {attachment_id: "reserved"}
    assert listener.heard == [(SERVER, "volume-reimaged", "completed", volume_id)]
    assert await cloud.complaints() == []


async def test_a_failure_ends_in_error_and_the_server_is_told_of_it(
    cloud: VolumeCloud, listener: Listener
) -> None:
    volume_id, _ = await make_reserved(cloud)
    cloud.storage.knobs.fail("replace", NoCapacity("The pool is full."))
    assert (await reimage(cloud, volume_id, reimage_reserved=True)).status == 202
    assert await cloud.status(volume_id) == "error"
    assert cloud.storage.content(volume_id) == IMAGE
    assert listener.heard == [(SERVER, "volume-reimaged", "failed", volume_id)]
    assert await messages(cloud) == ["VOLUME_VOLUME_016_001"]
    assert await cloud.complaints() == []


async def test_from_error_it_comes_back_to_the_server_that_has_reserved_it(
    cloud: VolumeCloud, listener: Listener
) -> None:
    volume_id, _ = await make_reserved(cloud)
    cloud.storage.knobs.fail("replace", NoCapacity("The pool is full."))
    await reimage(cloud, volume_id, reimage_reserved=True)
    listener.heard.clear()
    assert (await reimage(cloud, volume_id, reimage_reserved=True)).status == 202
    assert await cloud.status(volume_id) == "reserved"
    assert listener.heard == [(SERVER, "volume-reimaged", "completed", volume_id)]
    assert await cloud.complaints() == []


async def test_a_success_leads_out_of_error_without_a_server_too(
    cloud: VolumeCloud, listener: Listener
) -> None:
    volume_id = await cloud.make(imageRef=IMAGE)
    await cloud.set(volume_id, status="error")
    assert (await reimage(cloud, volume_id, reimage_reserved=True)).status == 202
    shown = await cloud.show(volume_id)
    assert (shown["status"], shown["volume_image_metadata"]["image_id"]) == (
        "available",
        OTHER_IMAGE,
    )


async def test_a_type_may_promise_that_a_failure_costs_nothing(
    cloud: VolumeCloud, listener: Listener
) -> None:
    kept = await cloud.type_with(**{KEEP: "true"})
    volume_id, attachment_id = await make_reserved(cloud, volume_type=kept)
    cloud.storage.knobs.fail("replace", NoCapacity("The pool is full."))
    assert (await reimage(cloud, volume_id, reimage_reserved=True)).status == 202
    shown = await cloud.show(volume_id)
    assert (shown["status"], shown["volume_image_metadata"]["image_id"]) == ("reserved", IMAGE)
    assert cloud.storage.content(volume_id) == IMAGE
    assert await cloud.attachments(volume_id) == {attachment_id: "reserved"}
    assert listener.heard == [(SERVER, "volume-reimaged", "failed", volume_id)]
    assert await cloud.complaints() == []


async def test_whether_the_data_is_kept_is_not_guessed(
    cloud: VolumeCloud, listener: Listener
) -> None:
    kept = await cloud.type_with(**{KEEP: "true"})
    volume_id, _ = await make_reserved(cloud, volume_type=kept)
    for _ in range(400):
        cloud.storage.knobs.fail("replace", Unavailable("The host is out of breath."))
    await reimage(cloud, volume_id, reimage_reserved=True)
    assert await cloud.status(volume_id) == "error"


async def test_an_image_of_another_format_than_it_says_is_told(
    cloud: VolumeCloud, listener: Listener
) -> None:
    volume_id = await cloud.make(imageRef=IMAGE)
    cloud.storage.knobs.fail("replace", Invalid("These are no qcow2 data."))
    await reimage(cloud, volume_id)
    assert await cloud.status(volume_id) == "error"
    assert await messages(cloud) == ["VOLUME_VOLUME_016_029"]


@pytest.mark.parametrize("error", [NotFound("No such path."), Unavailable("Nobody answers.")])
async def test_a_compute_service_that_cannot_be_told_holds_nothing_up(
    cloud: VolumeCloud, listener: Listener, error: MooringError
) -> None:
    volume_id, _ = await make_reserved(cloud)
    listener.error = error
    assert (await reimage(cloud, volume_id, reimage_reserved=True)).status == 202
    assert await cloud.status(volume_id) == "reserved"
    assert await messages(cloud) == ["VOLUME_VOLUME_016_028"]
    assert await cloud.complaints() == []


async def test_an_event_that_is_refused_is_told(cloud: VolumeCloud, listener: Listener) -> None:
    volume_id, _ = await make_reserved(cloud)
    listener.code = 422
    await reimage(cloud, volume_id, reimage_reserved=True)
    assert await cloud.status(volume_id) == "reserved"
    assert await messages(cloud) == ["VOLUME_VOLUME_016_028"]


@pytest.mark.parametrize("is_reserved", [True, False])
async def test_a_reserved_volume_has_a_policy_of_its_own(
    cloud: VolumeCloud, listener: Listener, *, is_reserved: bool
) -> None:
    refused = "volume:reimage" if is_reserved else "volume:reimage_reserved"
    strict = replace(SERVICE, rules={**SERVICE.rules, refused: "!"})
    app = strict.build(cloud.volume, validator=Tokens(), public_url=f"{URL}/volume")
    cloud.network.serve(f"{URL}/volume", app)
    free, (reserved, _) = await cloud.make(imageRef=IMAGE), await make_reserved(cloud)
    mine, other = (reserved, free) if is_reserved else (free, reserved)
    assert (await reimage(cloud, other, reimage_reserved=True)).status == 403
    assert (await reimage(cloud, mine, reimage_reserved=True)).status == 202


async def test_several_attachments_are_a_conflict(cloud: VolumeCloud, listener: Listener) -> None:
    shared = await cloud.type_with(multiattach="<is> True")
    volume_id = await cloud.make(volume_type=shared)
    await cloud.attach(volume_id, SERVER)
    assert (await cloud.reserve(volume_id, SERVER_2)).status == 200
    answer = await reimage(cloud, volume_id, reimage_reserved=True)
    assert (answer.status, await cloud.status(volume_id)) == (409, "reserved")


async def test_what_is_not_allowed_changes_nothing(cloud: VolumeCloud, listener: Listener) -> None:
    volume_id, _ = await make_reserved(cloud)
    refused = {
        "reserved, and not asked for": await reimage(cloud, volume_id),
        "unknown image": await reimage(cloud, volume_id, UNKNOWN, reimage_reserved=True),
        "unknown volume": await reimage(cloud, UNKNOWN),
        "another's volume": await reimage(cloud, volume_id, user="stranger", reimage_reserved=True),
        "a reader": await reimage(cloud, volume_id, user="reader", reimage_reserved=True),
        "a boolean as text": await reimage(cloud, volume_id, reimage_reserved="true"),
        "an unknown key": await reimage(cloud, volume_id, sparse=True),
        "no id": await reimage(cloud, volume_id, "word"),
    }
    assert {what: answer.status for what, answer in refused.items()} == {
        "reserved, and not asked for": 400,
        "unknown image": 404,
        "unknown volume": 404,
        "another's volume": 404,
        "a reader": 403,
        "a boolean as text": 400,
        "an unknown key": 400,
        "no id": 400,
    }
    assert (await reimage(cloud, volume_id, version="3.67")).status in {400, 404}
    await cloud.attach(await cloud.make(), SERVER_2)
    assert await cloud.status(volume_id) == "reserved"
    assert cloud.storage.content(volume_id) == IMAGE
    assert listener.heard == []


async def test_a_volume_in_use_is_never_reimaged(cloud: VolumeCloud, listener: Listener) -> None:
    volume_id = await cloud.make()
    await cloud.attach(volume_id)
    answer = await reimage(cloud, volume_id, reimage_reserved=True)
    assert (answer.status, await cloud.status(volume_id)) == (400, "in-use")


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "queued"},
        {"size": GIB + 1},
        {"virtual_size": 2 * GIB},
        {"min_disk": 2},
        {"disk_format": "vmdk"},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_an_unsuited_image_is_refused(
    cloud: VolumeCloud, listener: Listener, fields: dict[str, Any]
) -> None:
    volume_id = await cloud.make(imageRef=IMAGE)
    cloud.shelf.images[OTHER_IMAGE] |= fields
    assert (await reimage(cloud, volume_id)).status == 400
    shown = await cloud.show(volume_id)
    assert (shown["status"], shown["volume_image_metadata"]["image_id"]) == ("available", IMAGE)


async def test_who_reserves_it_meanwhile_keeps_it(cloud: VolumeCloud, listener: Listener) -> None:
    volume_id = await cloud.make(imageRef=IMAGE)
    await cloud.act(volume_id, "os-reimage", {"image_id": OTHER_IMAGE}, version="3.68")
    assert await cloud.status(volume_id) == "downloading"
    assert (await cloud.reserve(volume_id)).status == 200
    await cloud.settle()
    assert await cloud.status(volume_id) == "reserved"
    assert cloud.storage.content(volume_id) == OTHER_IMAGE
    assert await cloud.complaints() == []


async def test_a_snapshot_of_before_is_of_no_image(cloud: VolumeCloud, listener: Listener) -> None:
    volume_id = await cloud.make()
    body = {"snapshot": {"volume_id": volume_id}}
    before = (await cloud.ask("POST", "/snapshots", body)).key("snapshot")["id"]
    await cloud.settle()
    assert (await reimage(cloud, volume_id)).status == 202
    behind = (await cloud.ask("POST", "/snapshots", body)).key("snapshot")["id"]
    # It has what the volume has once it is taken.
    more = {"metadata": {"said": "meanwhile"}}
    assert (await cloud.act(volume_id, "os-set_image_metadata", more)).status == 200
    await cloud.settle()
    shown = await cloud.show(await cloud.make(snapshot_id=before))
    assert (shown["bootable"], "volume_image_metadata" in shown) == ("false", False)
    shown = await cloud.show(await cloud.make(snapshot_id=behind))
    assert shown["bootable"] == "true"
    assert shown["volume_image_metadata"]["image_id"] == OTHER_IMAGE
    assert shown["volume_image_metadata"]["said"] == "meanwhile"
