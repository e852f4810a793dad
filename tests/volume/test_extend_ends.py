"""Every extend ends: at its deadline, by an administrator's word, after a crash, without a host."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from mooring.errors import Unavailable
from mooring.saga.locks import LOCK_WAIT_S
from mooring.volume.tables import ReservationRow
from tests.volume.cloud import SERVER, VolumeCloud
from tests.volume.growth import GIB, SHORT_S, Harbour

pytestmark = pytest.mark.anyio
FAILED = ["VOLUME_VOLUME_007_010"]


@pytest.fixture
def harbour(cloud: VolumeCloud) -> Harbour:
    return Harbour(cloud)


@pytest.fixture
async def volume_id(harbour: Harbour) -> str:
    """A volume whose completion is awaited, from 1 GiB to 2."""
    made = await harbour.made()
    await harbour.extend(made)
    assert await harbour.state(made) == ("extending", 1)
    return made


async def pass_deadline(harbour: Harbour) -> None:
    """Let more than the ten minutes pass, in which nobody completes."""
    await harbour.cloud.settle(700.0)


async def test_at_the_deadline_a_file_that_has_grown_is_success(
    harbour: Harbour, volume_id: str
) -> None:
    await harbour.grow(volume_id)
    await harbour.cloud.settle(500.0)
    assert await harbour.state(volume_id) == ("extending", 1)
    await pass_deadline(harbour)
    assert await harbour.state(volume_id) == ("in-use", 2)
    assert harbour.nova.buried == [harbour.nova.taken[0].operation]
    assert (await harbour.complete(volume_id)).status == 400
    assert await harbour.messages() == []
    assert await harbour.is_at_peace()


async def test_at_the_deadline_compute_is_told_to_give_up_before_it_is_an_error(
    harbour: Harbour, volume_id: str
) -> None:
    await pass_deadline(harbour)
    assert await harbour.state(volume_id) == ("error_extending", 1)
    assert harbour.nova.buried[0] == harbour.nova.taken[0].operation
    assert (await harbour.complete(volume_id)).status == 400
    assert await harbour.messages() == FAILED
    assert await harbour.is_at_peace()


async def test_a_compute_service_that_will_not_give_up_is_waited_for(
    harbour: Harbour, volume_id: str
) -> None:
    harbour.nova.refusal = 403
    await pass_deadline(harbour)
    # From the deadline on the file tells, and nobody's word counts any more.
    assert (await harbour.complete(volume_id)).status == 400
    await harbour.cloud.settle(2300.0)
    assert await harbour.state(volume_id) == ("extending", 1)
    assert await harbour.gigabytes() == (1, 1)
    (listed,) = (await harbour.cloud.ask("GET", "/mooring/operations", user="admin")).body[
        "operations"
    ]
    shown = await harbour.cloud.ask("GET", f"/mooring/operations/{listed['id']}", user="admin")
    assert "403: Policy does not allow this." in shown.body["timeline"][-1]["error"]
    await harbour.grow(volume_id)
    harbour.nova.refusal = 0
    await harbour.rest()
    assert await harbour.state(volume_id) == ("in-use", 2)
    assert await harbour.is_at_peace()


async def test_once_compute_has_refused_a_completion_comes_too_late(harbour: Harbour) -> None:
    volume_id = await harbour.made()
    forbidden = {"forbidden": {"message": "Policy does not allow this."}}
    harbour.nova.answers, harbour.nova.refusal = [(403, forbidden)], 403
    await harbour.extend(volume_id)
    # It is not known yet whether compute is at work all the same.
    assert await harbour.state(volume_id) == ("extending", 1)
    assert (await harbour.complete(volume_id)).status == 400
    harbour.nova.refusal = 0
    await harbour.rest()
    assert await harbour.state(volume_id) == ("error_extending", 1)
    assert await harbour.is_at_peace()


async def test_a_reset_does_not_go_by_the_file_while_compute_may_grow_it(
    harbour: Harbour, volume_id: str
) -> None:
    harbour.nova.refusal = 403
    assert (await harbour.reset(volume_id, status="in-use")).status == 202
    await harbour.rest()
    await harbour.grow(volume_id)
    assert await harbour.state(volume_id) == ("in-use", 1)
    harbour.nova.refusal = 0
    await harbour.rest()
    assert await harbour.state(volume_id) == ("in-use", 2)
    assert await harbour.is_at_peace()


@pytest.mark.parametrize("status", [404, 410])
async def test_a_compute_service_that_knows_nothing_of_operations_keeps_nobody_waiting(
    harbour: Harbour, volume_id: str, status: int
) -> None:
    harbour.nova.refusal = status
    await pass_deadline(harbour)
    assert await harbour.state(volume_id) == ("error_extending", 1)
    assert await harbour.is_at_peace()


async def test_a_volume_service_that_was_down_still_takes_the_completion(
    harbour: Harbour, volume_id: str
) -> None:
    harbour.cloud.clock.advance(7200.0)
    await harbour.cloud.restart(hosts=True)
    await harbour.rest()
    assert await harbour.state(volume_id) == ("extending", 1)
    await harbour.grow(volume_id)
    assert (await harbour.complete(volume_id)).status == 202
    assert await harbour.state(volume_id) == ("in-use", 2)
    assert await harbour.is_at_peace()


@pytest.mark.parametrize("has_grown", [True, False])
async def test_resetting_the_status_rolls_back_and_tells_compute_to_give_up(
    harbour: Harbour, volume_id: str, *, has_grown: bool
) -> None:
    if has_grown:
        await harbour.grow(volume_id)
    assert (await harbour.reset(volume_id, status="in-use")).status == 202
    await harbour.rest()
    assert await harbour.state(volume_id) == ("in-use", 2 if has_grown else 1)
    assert harbour.nova.buried == [harbour.nova.taken[0].operation]
    assert "extend_new_size" not in (await harbour.cloud.show(volume_id))["metadata"]
    assert (await harbour.complete(volume_id)).status == 400
    assert await harbour.is_at_peace()
    await harbour.cloud.look_at_hosts()
    assert (await harbour.extend(volume_id, 3)).status == 202
    await harbour.grow(volume_id, 3)
    await harbour.complete(volume_id)
    assert await harbour.state(volume_id) == ("in-use", 3)
    assert await harbour.is_at_peace()


async def test_a_reset_that_names_no_status_gives_one_of_rest(
    harbour: Harbour, volume_id: str
) -> None:
    assert (await harbour.reset(volume_id, migration_status="none")).status == 202
    await harbour.rest()
    assert await harbour.state(volume_id) == ("in-use", 1)
    assert await harbour.is_at_peace()


async def test_a_reset_to_detached_rolls_back_too(harbour: Harbour, volume_id: str) -> None:
    answer = await harbour.reset(volume_id, status="available", attach_status="detached")
    assert answer.status == 202
    await harbour.rest()
    assert await harbour.state(volume_id) == ("available", 1)
    assert harbour.nova.buried == [harbour.nova.taken[0].operation]
    assert await harbour.is_at_peace()


async def test_what_somebody_left_extending_is_reset_with_the_file_s_size(harbour: Harbour) -> None:
    volume_id = await harbour.cloud.make()
    await harbour.cloud.known_agents["host1"].extend_volume(volume_id, 2)
    await harbour.cloud.set(volume_id, status="extending", extend_new_size=2)
    await harbour.reset(volume_id, status="available")
    await harbour.rest()
    assert await harbour.state(volume_id) == ("available", 2)
    assert await harbour.is_at_peace()


async def test_deleting_is_refused_and_forcing_it_ends_the_extend(harbour: Harbour) -> None:
    cloud, volume_id = harbour.cloud, await harbour.cloud.make()
    cloud.storage.knobs.fail("extend", Unavailable("The storage thinks."), times=99)
    await harbour.cloud.act(volume_id, "os-extend", {"new_size": 2})
    assert (await cloud.ask("DELETE", f"/volumes/{volume_id}")).status == 400
    assert await harbour.gigabytes() == (1, 1)
    path = f"/volumes/{volume_id}?force=true"
    assert (await cloud.ask("DELETE", path, user="admin")).status == 202
    await harbour.rest()
    assert await cloud.count_volumes() == 0
    assert await cloud.storage.volumes() == []
    assert await harbour.is_at_peace()


async def test_forced_away_from_under_compute_it_is_told_to_give_up(
    harbour: Harbour, volume_id: str
) -> None:
    for server in await harbour.cloud.known_agents["host1"].list_servers():
        await harbour.cloud.known_agents["host1"].delete_server(server.server_id)
    for attachment_id in await harbour.cloud.attachments(volume_id):
        await harbour.cloud.detach(attachment_id)
    answer = await harbour.cloud.act(volume_id, "os-force_delete", {}, user="admin")
    assert answer.status == 202
    await harbour.rest()
    assert await harbour.cloud.count_volumes() == 0
    assert harbour.nova.buried == [harbour.nova.taken[0].operation]
    assert await harbour.is_at_peace()


async def test_a_forced_delete_that_waits_too_long_leaves_the_extend_to_its_end(
    harbour: Harbour,
) -> None:
    cloud, volume_id = harbour.cloud, await harbour.made()

    async def force_in_vain() -> None:
        harbour.nova.meanwhile = None
        await harbour.grow(volume_id)
        await cloud.known_agents["host1"].delete_server(SERVER)
        for attachment_id in await cloud.attachments(volume_id):
            await cloud.detach(attachment_id)
        assert (await cloud.act(volume_id, "os-force_delete", {}, user="admin")).status == 202
        key = f"volume:{volume_id}"
        forced = (await cloud.store.read(lambda tx: cloud.engine.holders(tx, key)))[-1]
        cloud.clock.advance(LOCK_WAIT_S + 1.0)
        with pytest.raises(Unavailable, match="waited too long"):
            await cloud.engine.ended(forced)

    harbour.nova.meanwhile = force_in_vain
    await harbour.extend(volume_id)
    assert await harbour.state(volume_id) == ("error_deleting", 1)
    await pass_deadline(harbour)
    assert await harbour.state(volume_id) == ("error_deleting", 2)
    assert await harbour.is_at_peace()
    assert (await cloud.ask("DELETE", f"/volumes/{volume_id}")).status == 202
    await harbour.rest()
    assert await cloud.count_volumes() == 0


async def test_storage_that_is_silent_for_a_while_delays_and_changes_nothing(
    harbour: Harbour,
) -> None:
    volume_id = await harbour.cloud.make()
    silent = Unavailable("The storage thinks.")
    harbour.cloud.storage.knobs.fail("extend", silent, times=3)
    await harbour.extend(volume_id)
    assert await harbour.state(volume_id) == ("available", 2)
    assert await harbour.is_at_peace()


async def test_a_host_that_never_answers_leaves_error_extending(harbour: Harbour) -> None:
    cloud, volume_id = harbour.cloud, await harbour.cloud.make(size=1)
    known = cloud.known_agents["host1"]
    cloud.known_agents.remove("host1")
    assert (await cloud.act(volume_id, "os-extend", {"new_size": 2})).status == 202
    await cloud.settle(3000.0)
    assert await harbour.state(volume_id) == ("error_extending", 1)
    assert await harbour.messages() == FAILED
    assert await harbour.gigabytes() == (1, 1), "nobody knows yet how big it is"
    assert (await cloud.ask("DELETE", f"/volumes/{volume_id}")).status == 409
    await known.extend_volume(volume_id, 2)
    cloud.known_agents.add(known)
    await cloud.settle(SHORT_S)
    assert await harbour.state(volume_id) == ("available", 2)
    assert await harbour.messages() == FAILED
    assert await harbour.is_at_peace()


async def abort(harbour: Harbour) -> list[int]:
    """Insist, as an operator, that every operation there is ends; return the answers."""
    listed = (await harbour.cloud.ask("GET", "/mooring/operations", user="admin")).body[
        "operations"
    ]
    paths = [f"/mooring/operations/{one['id']}/action" for one in listed]
    asked = [await harbour.cloud.ask("POST", path, {"abort": None}, user="admin") for path in paths]
    await harbour.rest()
    return [answer.status for answer in asked]


async def test_an_operator_ends_what_waits_for_a_host_that_is_gone_for_good(
    harbour: Harbour,
) -> None:
    cloud, volume_id = harbour.cloud, await harbour.cloud.make(size=1)
    known = cloud.known_agents["host1"]
    cloud.known_agents.remove("host1")
    assert (await cloud.act(volume_id, "os-extend", {"new_size": 2})).status == 202
    await harbour.rest()
    assert await abort(harbour) == [409], "it has not failed yet"
    await cloud.settle(3000.0)
    assert await harbour.state(volume_id) == ("error_extending", 1)
    assert await harbour.gigabytes() == (1, 1)
    assert await abort(harbour) == [202]
    assert await harbour.state(volume_id) == ("error_extending", 1)
    assert await harbour.gigabytes() == (1, 0)
    assert await cloud.complaints() == []
    assert (await harbour.reset(volume_id, status="available")).status == 202
    assert await abort(harbour) == [202]
    assert await harbour.state(volume_id) == ("available", 1)
    assert (await cloud.ask("DELETE", f"/volumes/{volume_id}")).status == 202
    await harbour.rest()
    assert await abort(harbour) == [202]
    assert await cloud.count_volumes() == 0
    cloud.known_agents.add(known)
    assert await cloud.complaints() == []


async def test_a_size_nobody_could_read_is_the_file_s_after_a_reset(harbour: Harbour) -> None:
    cloud, volume_id = harbour.cloud, await harbour.cloud.make(size=1)
    known = cloud.known_agents["host1"]
    cloud.known_agents.remove("host1")
    await cloud.act(volume_id, "os-extend", {"new_size": 2})
    await cloud.settle(3000.0)
    assert await abort(harbour) == [202]
    await known.extend_volume(volume_id, 2)
    cloud.known_agents.add(known)
    assert (await harbour.reset(volume_id, status="available")).status == 202
    await harbour.rest()
    assert await harbour.state(volume_id) == ("available", 2)
    assert await harbour.is_at_peace()


async def test_a_call_to_storage_that_comes_late_is_refused(harbour: Harbour) -> None:
    cloud, volume_id = harbour.cloud, await harbour.cloud.make(size=1)
    agent = cloud.known_agents["host1"]
    cloud.storage.knobs.fail("extend", Unavailable("The storage thinks."), times=99)
    await cloud.act(volume_id, "os-extend", {"new_size": 2})
    await cloud.settle(3000.0)
    assert await harbour.state(volume_id) == ("error_extending", 1)
    file = await agent.show_volume(volume_id)
    assert file is not None
    assert file.virtual_bytes == GIB
    assert await harbour.is_at_peace()


async def test_no_reservation_outlives_its_operation(harbour: Harbour, volume_id: str) -> None:
    rows = await harbour.cloud.store.read(lambda tx: list(tx.execute(select(ReservationRow)).all()))
    assert len(rows) == 1
    await harbour.grow(volume_id)
    await harbour.complete(volume_id)
    rows = await harbour.cloud.store.read(lambda tx: list(tx.execute(select(ReservationRow)).all()))
    assert rows == []
