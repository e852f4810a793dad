from __future__ import annotations

from uuid import uuid4

import pytest

from mooring.clients.placement import Inventory, has_trait
from mooring.clients.transport import Forward, Request, Response, deliver_once
from mooring.errors import Conflict, NoCapacity, NotFound, Unavailable
from mooring.fence.operation import Operation
from mooring.neighbour import NoAnswer
from tests.placement.cloud import PROJECT, USER, PlacementCloud

pytestmark = pytest.mark.anyio
OPERATION = Operation("saga-1", "claim_resources", 1, 5)


async def claim(
    cloud: PlacementCloud,
    consumer: str,
    uuid: str,
    count: int,
    operation: Operation | None = OPERATION,
) -> None:
    await cloud.client.claim(
        consumer,
        {uuid: {"VCPU": count}},
        project_id=PROJECT,
        user_id=USER,
        operation=operation,
    )


async def lose_answer(request: Request, forward: Forward) -> Response:
    """Deliver, and lose the answer of every change."""
    answer = await forward(request)
    if request.method == "GET":
        return answer
    await answer.aclose()
    raise NoAnswer("the answer was lost")


async def test_a_host_is_made_once_and_kept_up_to_date(cloud: PlacementCloud) -> None:
    uuid = str(uuid4())
    for name in ("host1", "host1", "host2"):
        provider = await cloud.client.put_provider(name, uuid)
        assert (provider.uuid, provider.name) == (uuid, name)
    wanted = {"VCPU": Inventory(total=4, allocation_ratio=4.0), "DISK_GB": Inventory(total=9)}
    await cloud.client.put_inventory(uuid, wanted)
    generation = await cloud.generation(uuid)
    await cloud.client.put_inventory(uuid, wanted)
    assert await cloud.client.inventory(uuid) == wanted
    assert await cloud.generation(uuid) == generation
    assert [each.uuid for each in await cloud.client.providers(name="host2")] == [uuid]
    await cloud.client.delete_provider(uuid)
    await cloud.client.delete_provider(uuid)
    with pytest.raises(NotFound):
        await cloud.client.provider(uuid)


async def test_a_name_that_another_provider_has_is_a_conflict(cloud: PlacementCloud) -> None:
    await cloud.client.put_provider("host1", str(uuid4()))
    with pytest.raises(Conflict, match="Conflicting resource provider name"):
        await cloud.client.put_provider("host1", str(uuid4()))


async def test_traits_that_placement_lacks_become_custom_and_operators_stay(
    cloud: PlacementCloud,
) -> None:
    uuid = await cloud.provider()
    await cloud.ask("PUT", "/traits/CUSTOM_GOLD")
    body = {"resource_provider_generation": 0, "traits": ["CUSTOM_GOLD"]}
    await cloud.ask("PUT", f"/resource_providers/{uuid}/traits", body)
    for wanted, expected in (
        (
            {"COMPUTE_NODE", "COMPUTE_WARP"},
            {"COMPUTE_NODE", "CUSTOM_COMPUTE_WARP", "CUSTOM_GOLD"},
        ),
        ({"COMPUTE_NODE"}, {"COMPUTE_NODE", "CUSTOM_GOLD"}),
    ):
        for _ in range(2):
            await cloud.client.put_traits(uuid, wanted)
            there = await cloud.client.traits(uuid)
            assert there == expected
            assert all(has_trait(there, name) for name in wanted)


async def test_a_candidate_is_claimed_and_released(cloud: PlacementCloud) -> None:
    uuid = await cloud.provider(VCPU={"total": 4})
    (candidate,) = await cloud.client.candidates({"VCPU": 2}, ["!COMPUTE_STATUS_DISABLED"])
    assert candidate.provider_id == uuid
    assert candidate.summaries[uuid].resources["VCPU"].capacity == 4
    consumer = str(uuid4())
    await cloud.client.claim(
        consumer, candidate.allocations, project_id=PROJECT, user_id=USER, operation=OPERATION
    )
    held = await cloud.client.allocations(consumer)
    assert (held.allocations, held.project_id) == (candidate.allocations, PROJECT)
    assert await cloud.client.provider_allocations(uuid) == {consumer: {"VCPU": 2}}
    for _ in range(2):
        await cloud.client.release(consumer, operation=OPERATION)
    assert (await cloud.client.allocations(consumer)).allocations == {}


async def test_a_claim_whose_answer_was_lost_may_be_repeated(cloud: PlacementCloud) -> None:
    uuid, consumer = await cloud.provider(VCPU={"total": 2}), str(uuid4())
    for operation in (OPERATION, None):
        cloud.network.deliver = lose_answer
        with pytest.raises(Unavailable):
            await claim(cloud, consumer, uuid, 2, operation)
        cloud.network.deliver = deliver_once
        await claim(cloud, consumer, uuid, 2, operation)
        assert await cloud.used(uuid) == {"VCPU": 2}
        await cloud.client.release(consumer, operation=operation)


async def test_a_claim_behind_its_own_undo_has_no_effect(cloud: PlacementCloud) -> None:
    uuid, consumer = await cloud.provider(VCPU={"total": 2}), str(uuid4())
    await cloud.client.release(consumer, operation=OPERATION)
    with pytest.raises(Conflict, match="undone") as refusal:
        await claim(cloud, consumer, uuid, 1)
    assert refusal.value.detail["http_status"] == 410
    assert await cloud.used(uuid) == {"VCPU": 0}


async def test_an_older_generation_of_the_lock_is_refused(cloud: PlacementCloud) -> None:
    uuid, consumer = await cloud.provider(VCPU={"total": 2}), str(uuid4())
    await claim(cloud, consumer, uuid, 1)
    with pytest.raises(Conflict):
        await claim(cloud, consumer, uuid, 2, Operation("saga-2", "claim_resources", 1, 4))
    assert await cloud.used(uuid) == {"VCPU": 1}


async def test_no_room_is_no_capacity(cloud: PlacementCloud) -> None:
    uuid = await cloud.provider(VCPU={"total": 2})
    with pytest.raises(NoCapacity, match="Unable to allocate VCPU"):
        await claim(cloud, str(uuid4()), uuid, 3)


async def test_a_claim_replaces_what_the_consumer_held(cloud: PlacementCloud) -> None:
    uuid, consumer = await cloud.provider(VCPU={"total": 4}), str(uuid4())
    await claim(cloud, consumer, uuid, 1, None)
    await claim(cloud, consumer, uuid, 3, None)
    assert await cloud.used(uuid) == {"VCPU": 3}


async def test_a_move_is_made_once_and_moved_back(cloud: PlacementCloud) -> None:
    uuid, server, migration = await cloud.provider(VCPU={"total": 2}), str(uuid4()), str(uuid4())
    await claim(cloud, server, uuid, 2, None)
    for _ in range(2):
        await cloud.client.move(server, migration, operation=OPERATION)
    assert (await cloud.client.allocations(migration)).allocations == {uuid: {"VCPU": 2}}
    await cloud.client.move(migration, server, operation=OPERATION)
    assert (await cloud.client.allocations(server)).allocations == {uuid: {"VCPU": 2}}
    with pytest.raises(NotFound):
        await cloud.client.move(str(uuid4()), str(uuid4()))
    other = str(uuid4())
    await cloud.client.release(server)
    await claim(cloud, server, uuid, 1, None)
    await claim(cloud, other, uuid, 1, None)
    with pytest.raises(Conflict, match="holds resources already"):
        await cloud.client.move(server, other)


async def test_a_move_that_comes_after_its_claim_was_renewed_is_refused(
    cloud: PlacementCloud,
) -> None:
    uuid, server, migration = await cloud.provider(VCPU={"total": 2}), str(uuid4()), str(uuid4())
    await claim(cloud, server, uuid, 2, None)
    renewed: list[bool] = []

    async def come_late(request: Request, forward: Forward) -> Response:
        if request.method == "POST":
            cloud.network.deliver = deliver_once
            renewed.append(await cloud.client.renew(server, operation=OPERATION))
            answer = await forward(request)
            assert answer.status == 409
            await answer.aclose()
            raise NoAnswer("whoever asked is gone")
        return await forward(request)

    cloud.network.deliver = come_late
    with pytest.raises(Unavailable):
        await cloud.client.move(server, migration)
    assert renewed == [True]
    assert (await cloud.client.allocations(server)).allocations == {uuid: {"VCPU": 2}}
    assert not (await cloud.client.allocations(migration)).allocations
    assert not await cloud.client.renew(migration)


async def test_losing_every_race_is_unavailable_not_a_failure(cloud: PlacementCloud) -> None:
    uuid = await cloud.provider(VCPU={"total": 2})

    async def meddle(request: Request, forward: Forward) -> Response:
        if request.method == "PUT":
            cloud.network.deliver = deliver_once
            await cloud.ask("DELETE", f"/resource_providers/{uuid}/traits")
            cloud.network.deliver = meddle
        return await forward(request)

    cloud.network.deliver = meddle
    with pytest.raises(Unavailable, match="others changed the same provider"):
        await cloud.client.put_inventory(uuid, {"VCPU": Inventory(total=8)})
