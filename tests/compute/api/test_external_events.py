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
from tests.compute.api.cloud import URL, ComputeAlone, fault_of

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
    cloud: ComputeAlone, *events: dict[str, Any], version: str = "2.105", user: str = "volume"
) -> Any:
    return await cloud.ask("POST", PATH, {"events": [*events]}, version=version, user=user)


async def test_an_event_that_nobody_waits_for_is_accepted(cloud: ComputeAlone) -> None:
    server_id = await cloud.server(host="host1")
    event = {"server_uuid": server_id, "name": "network-changed", "tag": "port"}
    answer = await send(cloud, event)
    assert answer.status == 200
    assert answer.body == {"events": [event | {"status": "completed", "code": 200}]}


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
async def test_each_event_has_its_own_code(
    cloud: ComputeAlone, event: dict[str, Any], code: int
) -> None:
    server_id = await cloud.server(host="host1")
    answer = await send(cloud, {"server_uuid": server_id} | event)
    assert answer.status == (200 if code == 200 else 207)
    (told,) = answer.body["events"]
    assert (told["code"], told["status"]) == (code, "completed" if code == 200 else "failed")


@pytest.mark.parametrize("name", ["network-changed", "volume-extended"])
async def test_a_server_without_a_host_cannot_hear(cloud: ComputeAlone, name: str) -> None:
    server_id = await cloud.server()
    answer = await send(cloud, {"server_uuid": server_id, "name": name, "tag": VOLUME})
    assert (answer.status, answer.body["events"][0]["code"]) == (207, 422)
    assert await started(cloud, server_id) == []


async def test_one_refused_event_keeps_no_other_from_being_heard(cloud: ComputeAlone) -> None:
    server_id = await cloud.server(host="host1")
    event = {"server_uuid": server_id, "name": "volume-extended", "tag": VOLUME}
    answer = await send(cloud, event | {"server_uuid": NOBODY}, event)
    assert (answer.status, [one["code"] for one in answer.body["events"]]) == (
        207,
        [404, 200],
    )
    assert await started(cloud, server_id) == ["extend_volume"]


@pytest.mark.parametrize("version", ["2.51", "2.104", "2.105"])
async def test_an_extend_is_an_action_of_the_server(cloud: ComputeAlone, version: str) -> None:
    server_id = await cloud.server(host="host1")
    event = {"server_uuid": server_id, "name": "volume-extended", "tag": VOLUME}
    assert (await send(cloud, event, version=version)).status == 200
    assert await started(cloud, server_id) == ["extend_volume"]
    notes = await cloud.compute.store.read(
        lambda tx: tx.execute(select(SagaRow.notes)).scalar_one()
    )
    assert notes["answers"] is (version == "2.105")
    assert (notes["volume_id"], notes["host"]) == (VOLUME, "host1")


async def test_the_events_of_one_operation_are_heard_once(cloud: ComputeAlone) -> None:
    server_id = await cloud.server(host="host1")
    event = {"server_uuid": server_id, "name": "volume-extended", "tag": VOLUME}
    services = {"X-Service-Token": "volume"}
    for epoch, code in ((1, 200), (1, 200), (2, 200), (1, 412)):
        headers = services | {HEADER: str(Operation(NOBODY, "send_event", epoch, 5))}
        answer = await cloud.ask(
            "POST", PATH, {"events": [event]}, version="2.105", user="volume", headers=headers
        )
        assert answer.status == code
    assert await started(cloud, server_id) == ["extend_volume"]
    key = f"{NOBODY}.send_event"
    (saga_id,) = await cloud.compute.store.write(lambda tx: table.bury(tx, key))
    names = select(SagaRow.name).where(SagaRow.id == saga_id)
    store = cloud.compute.store
    assert await store.read(lambda tx: tx.execute(names).scalar()) == "compute.extend_volume"


async def started(cloud: ComputeAlone, server_id: str) -> list[str]:
    """Return the server's actions."""
    path = f"/servers/{server_id}/os-instance-actions"
    return [one["action"] for one in (await cloud.get(path, user="admin"))["instanceActions"]]


@pytest.mark.parametrize(
    ("name", "since"), [("volume-extended", 51), ("power-update", 76), ("volume-reimaged", 93)]
)
async def test_an_event_is_known_from_its_version_on(
    cloud: ComputeAlone, name: str, since: int
) -> None:
    server_id = await cloud.server(host="host1")
    event = {"server_uuid": server_id, "name": name, "tag": VOLUME}
    assert fault_of(await send(cloud, event, version=f"2.{since - 1}"))[0] == 400
    assert (await send(cloud, event, version=f"2.{since}")).status in {200, 207}


@pytest.mark.parametrize("body", BAD)
async def test_bad_input_is_400(cloud: ComputeAlone, body: Any) -> None:
    answer = await cloud.ask("POST", PATH, body, version="2.104", user="volume")
    assert fault_of(answer)[:2] == (400, "badRequest")


async def test_events_are_for_services(cloud: ComputeAlone) -> None:
    event = {"server_uuid": NOBODY, "name": "network-changed"}
    assert fault_of(await send(cloud, event, user="member"))[:2] == (403, "forbidden")


def client_of(cloud: ComputeAlone) -> ComputeClient:
    return ComputeClient(session(cloud.network, "compute", f"{URL}/v2.1"))


async def test_the_client_tells_each_events_answer(cloud: ComputeAlone) -> None:
    server_id = await cloud.server(host="host1")
    sent = [
        ExternalEvent(server_id, "network-changed"),
        ExternalEvent(NOBODY, "volume-extended", tag=VOLUME),
    ]
    answers = await client_of(cloud).send_events(None, sent)
    assert [(one.server_uuid, one.code) for one in answers] == [(server_id, 200), (NOBODY, 404)]
    assert answers[1].tag == VOLUME


async def test_the_client_shows_what_the_delete_guard_compares(cloud: ComputeAlone) -> None:
    server_id = await cloud.server(host="host1")
    row = {
        "id": NOBODY,
        "server_id": server_id,
        "state": "attached",
        "source_type": "volume",
        "destination_type": "volume",
        "boot_index": None,
        "device_name": "/dev/vdb",
        "volume_id": VOLUME,
        "created_at": cloud.clock.now(),
        "updated_at": cloud.clock.now(),
    }
    await cloud.put(BlockDevice, row)
    place = {"block_device_id": NOBODY, "host": "host1", "attachment_id": NOBODY}
    times = {"created_at": cloud.clock.now(), "updated_at": cloud.clock.now()}
    await cloud.put(DiskPlace, place | times)
    shown = await client_of(cloud).show_volume_attachment(None, server_id, VOLUME)
    assert (shown.server_id, shown.volume_id) == (server_id, VOLUME)
    assert (shown.attachment_id, shown.device) == (NOBODY, "/dev/vdb")
    with pytest.raises(NotFound):
        await client_of(cloud).show_volume_attachment(None, server_id, NOBODY)
