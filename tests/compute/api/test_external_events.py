from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from mooring.clients.compute import ComputeClient, ExternalEvent
from mooring.compute.tables import BlockDevice, DiskPlace
from mooring.errors import NotFound
from mooring.fence import table
from mooring.fence.operation import HEADER, Operation
from mooring.saga.tables import SagaRow
from tests.callers import session
from tests.compute.api.desk import URL, Desk, fault_of

pytestmark = pytest.mark.anyio

NOBODY = "22222222-2222-4222-8222-222222222222"
VOLUME = "33333333-3333-4333-8333-333333333333"
PATH = "/os-server-external-events"
BAD: list[Any] = [
    {},
    {"events": []},
    {"events": [{}]},
    {"events": [{"server_uuid": "x", "name": "network-changed"}]},
    {"events": [{"server_uuid": NOBODY, "name": "party"}]},
    {"events": [{"server_uuid": NOBODY, "name": "network-changed", "status": "odd"}]},
    {"events": [{"server_uuid": NOBODY, "name": "network-changed", "tag": "x" * 256}]},
    {"events": [{"server_uuid": NOBODY, "name": "network-changed", "more": 1}]},
    {"events": [{"server_uuid": NOBODY, "name": "network-changed"}], "more": 1},
]


async def send(
    desk: Desk, *events: dict[str, Any], version: str = "2.105", who: str = "volume"
) -> Any:
    return await desk.ask("POST", PATH, {"events": [*events]}, version=version, who=who)


async def test_an_event_that_nobody_waits_for_is_accepted(desk: Desk) -> None:
    server_id = await desk.server(host="host1")
    event = {"server_uuid": server_id, "name": "network-changed", "tag": "port"}
    answer = await send(desk, event)
    assert answer.status_code == 200
    assert answer.json() == {"events": [event | {"status": "completed", "code": 200}]}


@pytest.mark.parametrize(
    ("event", "code"),
    [
        ({"name": "network-vif-plugged"}, 200),
        ({"name": "power-update"}, 400),
        ({"name": "power-update", "tag": "POWER_ON"}, 200),
        ({"name": "volume-extended"}, 400),
        ({"name": "volume-extended", "tag": ""}, 400),
        ({"name": "volume-extended", "tag": VOLUME}, 200),
        ({"name": "volume-reimaged", "tag": VOLUME}, 200),
        ({"name": "network-changed", "server_uuid": NOBODY}, 404),
        ({"name": "volume-extended", "server_uuid": NOBODY}, 404),
    ],
)
async def test_each_event_has_its_own_code(desk: Desk, event: dict[str, Any], code: int) -> None:
    server_id = await desk.server(host="host1")
    answer = await send(desk, {"server_uuid": server_id} | event)
    assert answer.status_code == (200 if code == 200 else 207)
    (told,) = answer.json()["events"]
    assert (told["code"], told["status"]) == (code, "completed" if code == 200 else "failed")


@pytest.mark.parametrize("name", ["network-changed", "volume-extended"])
async def test_a_server_without_a_host_cannot_hear(desk: Desk, name: str) -> None:
    server_id = await desk.server()
    answer = await send(desk, {"server_uuid": server_id, "name": name, "tag": VOLUME})
    assert (answer.status_code, answer.json()["events"][0]["code"]) == (207, 422)
    assert await started(desk, server_id) == []


async def test_one_refused_event_keeps_no_other_from_being_heard(desk: Desk) -> None:
    server_id = await desk.server(host="host1")
    event = {"server_uuid": server_id, "name": "volume-extended", "tag": VOLUME}
    answer = await send(desk, event | {"server_uuid": NOBODY}, event)
    assert (answer.status_code, [one["code"] for one in answer.json()["events"]]) == (
        207,
        [404, 200],
    )
    assert await started(desk, server_id) == ["extend_volume"]


@pytest.mark.parametrize("version", ["2.51", "2.104", "2.105"])
async def test_an_extend_is_an_action_of_the_server(desk: Desk, version: str) -> None:
    server_id = await desk.server(host="host1")
    event = {"server_uuid": server_id, "name": "volume-extended", "tag": VOLUME}
    assert (await send(desk, event, version=version)).status_code == 200
    assert await started(desk, server_id) == ["extend_volume"]
    notes = await desk.compute.store.read(lambda tx: tx.execute(select(SagaRow.notes)).scalar_one())
    assert notes["answers"] is (version == "2.105")
    assert (notes["volume_id"], notes["host"]) == (VOLUME, "host1")


async def test_the_events_of_one_operation_are_heard_once(desk: Desk) -> None:
    server_id = await desk.server(host="host1")
    event = {"server_uuid": server_id, "name": "volume-extended", "tag": VOLUME}
    services = {"X-Service-Token": "volume"}
    for epoch, code in ((1, 200), (1, 200), (2, 200), (1, 412)):
        headers = services | {HEADER: str(Operation(NOBODY, "send_event", epoch, 5))}
        answer = await desk.ask(
            "POST", PATH, {"events": [event]}, version="2.105", who="volume", headers=headers
        )
        assert answer.status_code == code
    assert await started(desk, server_id) == ["extend_volume"]
    key = f"{NOBODY}.send_event"
    (saga_id,) = await desk.compute.store.write(lambda tx: table.bury(tx, key))
    names = select(SagaRow.name).where(SagaRow.id == saga_id)
    store = desk.compute.store
    assert await store.read(lambda tx: tx.execute(names).scalar()) == "compute.extend_volume"


async def started(desk: Desk, server_id: str) -> list[str]:
    """Return the server's actions."""
    path = f"/servers/{server_id}/os-instance-actions"
    return [one["action"] for one in (await desk.get(path, who="admin"))["instanceActions"]]


@pytest.mark.parametrize(
    ("name", "since"), [("volume-extended", 51), ("power-update", 76), ("volume-reimaged", 93)]
)
async def test_an_event_is_known_from_its_version_on(desk: Desk, name: str, since: int) -> None:
    server_id = await desk.server(host="host1")
    event = {"server_uuid": server_id, "name": name, "tag": VOLUME}
    assert fault_of(await send(desk, event, version=f"2.{since - 1}"))[0] == 400
    assert (await send(desk, event, version=f"2.{since}")).status_code in {200, 207}


@pytest.mark.parametrize("body", BAD)
async def test_bad_input_is_400(desk: Desk, body: Any) -> None:
    answer = await desk.ask("POST", PATH, body, version="2.104", who="volume")
    assert fault_of(answer)[:2] == (400, "badRequest")


async def test_events_are_for_services(desk: Desk) -> None:
    event = {"server_uuid": NOBODY, "name": "network-changed"}
    assert fault_of(await send(desk, event, who="member"))[:2] == (403, "forbidden")


def client_of(desk: Desk) -> ComputeClient:
    return ComputeClient(session(desk.network, "compute", f"{URL}/v2.1"))


async def test_the_client_tells_each_events_answer(desk: Desk) -> None:
    server_id = await desk.server(host="host1")
    sent = [
        ExternalEvent(server_id, "network-changed"),
        ExternalEvent(NOBODY, "volume-extended", tag=VOLUME),
    ]
    answers = await client_of(desk).send_events(None, sent)
    assert [(one.server_uuid, one.code) for one in answers] == [(server_id, 200), (NOBODY, 404)]
    assert answers[1].tag == VOLUME


async def test_the_client_shows_what_the_delete_guard_compares(desk: Desk) -> None:
    server_id = await desk.server(host="host1")
    row = {
        "id": NOBODY,
        "server_id": server_id,
        "state": "attached",
        "source_type": "volume",
        "destination_type": "volume",
        "boot_index": None,
        "device_name": "/dev/vdb",
        "volume_id": VOLUME,
        "created_at": desk.clock.now(),
        "updated_at": desk.clock.now(),
    }
    await desk.put(BlockDevice, row)
    place = {"block_device_id": NOBODY, "host": "host1", "attachment_id": NOBODY}
    times = {"created_at": desk.clock.now(), "updated_at": desk.clock.now()}
    await desk.put(DiskPlace, place | times)
    shown = await client_of(desk).show_volume_attachment(None, server_id, VOLUME)
    assert (shown.server_id, shown.volume_id) == (server_id, VOLUME)
    assert (shown.attachment_id, shown.device) == (NOBODY, "/dev/vdb")
    with pytest.raises(NotFound):
        await client_of(desk).show_volume_attachment(None, server_id, NOBODY)
