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
from tests.volume.dock import IMAGE, SERVER, SERVER_2, UNKNOWN, Answer, Compute, Dock, Tokens

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
def listener(dock: Dock) -> Listener:
    heard = Listener()
    dock.compute = dock.volume.compute = heard
    other = replace(
        dock.images.known[IMAGE], id=OTHER_IMAGE, name="other", properties={"os_type": "linux"}
    )
    dock.images.known[OTHER_IMAGE] = other
    return heard


async def reimage(dock: Dock, volume_id: str, image_id: str = OTHER_IMAGE, **more: Any) -> Answer:
    how = {"version": "3.68", "who": "member"} | {
        key: more.pop(key) for key in ("version", "who") if key in more
    }
    answer = await dock.act(volume_id, "os-reimage", {"image_id": image_id, **more}, **how)
    await dock.engine.settle()
    return answer


async def messages(dock: Dock) -> list[str]:
    listed = (await dock.ask("GET", "/messages")).json["messages"]
    return sorted(message["event_id"] for message in listed)


async def make_reserved(dock: Dock, **fields: Any) -> tuple[str, str]:
    volume_id = await dock.make(imageRef=IMAGE, **fields)
    attachment_id = (await dock.reserve(volume_id)).json["attachment"]["id"]
    return volume_id, attachment_id


async def test_an_available_volume_gets_the_image_and_all_of_its_metadata(
    dock: Dock, listener: Listener
) -> None:
    volume_id = await dock.make(imageRef=IMAGE)
    assert (await reimage(dock, volume_id)).status == 202
    shown = await dock.show(volume_id)
    assert (shown["status"], shown["bootable"]) == ("available", "true")
    assert shown["volume_image_metadata"]["image_id"] == OTHER_IMAGE
    assert shown["volume_image_metadata"]["os_type"] == "linux"
    assert "hw_disk_bus" not in shown["volume_image_metadata"]
    assert dock.storage.content(volume_id) == OTHER_IMAGE
    assert listener.heard == []
    assert await dock.complaints() == []


async def test_an_empty_volume_becomes_bootable(dock: Dock, listener: Listener) -> None:
    volume_id = await dock.make()
    assert (await reimage(dock, volume_id)).status == 202
    assert (await dock.show(volume_id))["bootable"] == "true"


async def test_a_reserved_volume_stays_reserved_and_its_server_is_told(
    dock: Dock, listener: Listener
) -> None:
    volume_id, attachment_id = await make_reserved(dock)
    assert (await reimage(dock, volume_id, reimage_reserved=True)).status == 202
    assert await dock.status(volume_id) == "reserved"
    assert await dock.attachments(volume_id) == {attachment_id: "reserved"}
    assert listener.heard == [(SERVER, "volume-reimaged", "completed", volume_id)]
    assert await dock.complaints() == []


async def test_a_failure_ends_in_error_and_the_server_is_told_of_it(
    dock: Dock, listener: Listener
) -> None:
    volume_id, _ = await make_reserved(dock)
    dock.storage.knobs.fail("replace", NoCapacity("The pool is full."))
    assert (await reimage(dock, volume_id, reimage_reserved=True)).status == 202
    assert await dock.status(volume_id) == "error"
    assert dock.storage.content(volume_id) == IMAGE
    assert listener.heard == [(SERVER, "volume-reimaged", "failed", volume_id)]
    assert await messages(dock) == ["VOLUME_VOLUME_016_001"]
    assert await dock.complaints() == []


async def test_from_error_it_comes_back_to_the_server_that_has_reserved_it(
    dock: Dock, listener: Listener
) -> None:
    volume_id, _ = await make_reserved(dock)
    dock.storage.knobs.fail("replace", NoCapacity("The pool is full."))
    await reimage(dock, volume_id, reimage_reserved=True)
    listener.heard.clear()
    assert (await reimage(dock, volume_id, reimage_reserved=True)).status == 202
    assert await dock.status(volume_id) == "reserved"
    assert listener.heard == [(SERVER, "volume-reimaged", "completed", volume_id)]
    assert await dock.complaints() == []


async def test_from_error_without_a_server_it_stays_in_error(
    dock: Dock, listener: Listener
) -> None:
    volume_id = await dock.make(imageRef=IMAGE)
    await dock.set(volume_id, status="error")
    assert (await reimage(dock, volume_id, reimage_reserved=True)).status == 202
    shown = await dock.show(volume_id)
    assert (shown["status"], shown["volume_image_metadata"]["image_id"]) == ("error", OTHER_IMAGE)


async def test_a_type_may_promise_that_a_failure_costs_nothing(
    dock: Dock, listener: Listener
) -> None:
    kept = await dock.type_with(**{KEEP: "true"})
    volume_id, attachment_id = await make_reserved(dock, volume_type=kept)
    dock.storage.knobs.fail("replace", NoCapacity("The pool is full."))
    assert (await reimage(dock, volume_id, reimage_reserved=True)).status == 202
    shown = await dock.show(volume_id)
    assert (shown["status"], shown["volume_image_metadata"]["image_id"]) == ("reserved", IMAGE)
    assert dock.storage.content(volume_id) == IMAGE
    assert await dock.attachments(volume_id) == {attachment_id: "reserved"}
    assert listener.heard == [(SERVER, "volume-reimaged", "failed", volume_id)]
    assert await dock.complaints() == []


async def test_whether_the_data_is_kept_is_not_guessed(dock: Dock, listener: Listener) -> None:
    kept = await dock.type_with(**{KEEP: "true"})
    volume_id, _ = await make_reserved(dock, volume_type=kept)
    for _ in range(400):
        dock.storage.knobs.fail("replace", Unavailable("The host is out of breath."))
    await reimage(dock, volume_id, reimage_reserved=True)
    assert await dock.status(volume_id) == "error"


async def test_an_image_of_another_format_than_it_says_is_told(
    dock: Dock, listener: Listener
) -> None:
    volume_id = await dock.make(imageRef=IMAGE)
    dock.storage.knobs.fail("replace", Invalid("These are no qcow2 data."))
    await reimage(dock, volume_id)
    assert await dock.status(volume_id) == "error"
    assert await messages(dock) == ["VOLUME_VOLUME_016_029"]


@pytest.mark.parametrize("error", [NotFound("No such path."), Unavailable("Nobody answers.")])
async def test_a_compute_service_that_cannot_be_told_holds_nothing_up(
    dock: Dock, listener: Listener, error: MooringError
) -> None:
    volume_id, _ = await make_reserved(dock)
    listener.error = error
    assert (await reimage(dock, volume_id, reimage_reserved=True)).status == 202
    assert await dock.status(volume_id) == "reserved"
    assert await messages(dock) == ["VOLUME_VOLUME_016_028"]
    assert await dock.complaints() == []


async def test_an_event_that_is_refused_is_told(dock: Dock, listener: Listener) -> None:
    volume_id, _ = await make_reserved(dock)
    listener.code = 422
    await reimage(dock, volume_id, reimage_reserved=True)
    assert await dock.status(volume_id) == "reserved"
    assert await messages(dock) == ["VOLUME_VOLUME_016_028"]


@pytest.mark.parametrize("is_reserved", [True, False])
async def test_a_reserved_volume_has_a_policy_of_its_own(
    dock: Dock, listener: Listener, *, is_reserved: bool
) -> None:
    refused = "volume:reimage" if is_reserved else "volume:reimage_reserved"
    strict = replace(SERVICE, rules={**SERVICE.rules, refused: "!"})
    dock.app = strict.build(dock.volume, validator=Tokens(), public_url="http://cloud/volume")
    free, (reserved, _) = await dock.make(imageRef=IMAGE), await make_reserved(dock)
    mine, other = (reserved, free) if is_reserved else (free, reserved)
    assert (await reimage(dock, other, reimage_reserved=True)).status == 403
    assert (await reimage(dock, mine, reimage_reserved=True)).status == 202


async def test_several_attachments_are_a_conflict(dock: Dock, listener: Listener) -> None:
    shared = await dock.type_with(multiattach="<is> True")
    volume_id = await dock.make(volume_type=shared)
    await dock.attach(volume_id, SERVER)
    assert (await dock.reserve(volume_id, SERVER_2)).status == 200
    answer = await reimage(dock, volume_id, reimage_reserved=True)
    assert (answer.status, await dock.status(volume_id)) == (409, "reserved")


async def test_what_is_not_allowed_changes_nothing(dock: Dock, listener: Listener) -> None:
    volume_id, _ = await make_reserved(dock)
    refused = {
        "reserved, and not asked for": await reimage(dock, volume_id),
        "unknown image": await reimage(dock, volume_id, UNKNOWN, reimage_reserved=True),
        "unknown volume": await reimage(dock, UNKNOWN),
        "another's volume": await reimage(dock, volume_id, who="stranger", reimage_reserved=True),
        "a reader": await reimage(dock, volume_id, who="reader", reimage_reserved=True),
        "a boolean as text": await reimage(dock, volume_id, reimage_reserved="true"),
        "an unknown key": await reimage(dock, volume_id, sparse=True),
        "no id": await reimage(dock, volume_id, "word"),
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
    assert (await reimage(dock, volume_id, version="3.67")).status in {400, 404}
    await dock.attach(await dock.make(), SERVER_2)
    assert await dock.status(volume_id) == "reserved"
    assert dock.storage.content(volume_id) == IMAGE
    assert listener.heard == []


async def test_a_volume_in_use_is_never_reimaged(dock: Dock, listener: Listener) -> None:
    volume_id = await dock.make()
    await dock.attach(volume_id)
    answer = await reimage(dock, volume_id, reimage_reserved=True)
    assert (answer.status, await dock.status(volume_id)) == (400, "in-use")


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "queued"},
        {"size_bytes": GIB + 1},
        {"virtual_size_bytes": 2 * GIB},
        {"min_disk_gib": 2},
        {"disk_format": "vmdk"},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_an_unsuited_image_is_refused(
    dock: Dock, listener: Listener, fields: dict[str, Any]
) -> None:
    volume_id = await dock.make(imageRef=IMAGE)
    dock.images.known[OTHER_IMAGE] = replace(dock.images.known[OTHER_IMAGE], **fields)
    assert (await reimage(dock, volume_id)).status == 400
    shown = await dock.show(volume_id)
    assert (shown["status"], shown["volume_image_metadata"]["image_id"]) == ("available", IMAGE)


async def test_who_reserves_it_meanwhile_keeps_it(dock: Dock, listener: Listener) -> None:
    volume_id = await dock.make(imageRef=IMAGE)
    await dock.act(volume_id, "os-reimage", {"image_id": OTHER_IMAGE}, version="3.68")
    assert await dock.status(volume_id) == "downloading"
    assert (await dock.reserve(volume_id)).status == 200
    await dock.engine.settle()
    assert await dock.status(volume_id) == "reserved"
    assert dock.storage.content(volume_id) == OTHER_IMAGE
    assert await dock.complaints() == []
