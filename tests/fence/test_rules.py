"""What holds for every receiver of calls, service or agent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from mooring.errors import Conflict, Unavailable
from mooring.fence.operation import Operation
from mooring.fence.rules import Answer, Gone, Outdated, is_taken
from tests.fence.receivers import Receiver

pytestmark = pytest.mark.anyio
PLUG = Operation("s1", "plug", 3, 1000)
DISK = "servers/1/disks/2"


async def test_a_first_call_acts_and_the_same_call_gets_its_answer(receiver: Receiver) -> None:
    assert await receiver.admit(PLUG, DISK) is None
    await receiver.finish(PLUG, DISK, Answer(status=201, body={"device": "vdb"}, made=("v1",)))
    earlier = await receiver.admit(PLUG, DISK)
    assert earlier == Answer(status=201, body={"device": "vdb"}, made=("v1",))


async def test_the_answer_outlives_the_epoch(receiver: Receiver) -> None:
    await receiver.admit(PLUG, DISK)
    await receiver.finish(PLUG, DISK, Answer(body="x"))
    assert await receiver.admit(replace(PLUG, epoch=4), DISK) == Answer(body="x")


async def test_other_steps_resources_and_verbs_act_for_themselves(receiver: Receiver) -> None:
    await receiver.admit(PLUG, DISK)
    await receiver.finish(PLUG, DISK, Answer())
    assert await receiver.admit(replace(PLUG, step="other"), DISK) is None
    assert await receiver.admit(PLUG, "servers/1/disks/3") is None
    assert await receiver.admit(PLUG, DISK, "DELETE") is None


async def test_a_delete_that_was_taken_back_does_nothing_when_it_comes_late(
    receiver: Receiver,
) -> None:
    assert await receiver.admit(PLUG.again(), DISK) is None
    assert await receiver.admit(PLUG, DISK, "DELETE") == Answer(status=204)
    assert await receiver.admit(PLUG, "servers/1/disks/3", "DELETE") is None


async def test_a_call_without_an_answer_acts_again(receiver: Receiver) -> None:
    assert await receiver.admit(PLUG, DISK) is None
    assert await receiver.admit(PLUG, DISK) is None


async def test_a_disk_without_room_refuses_nothing_for_good(receiver: Receiver) -> None:
    assert await receiver.admit(PLUG, DISK) is None
    await receiver.fill()
    answer = Answer(body="x" * 100_000)
    with pytest.raises(Unavailable, match="no room"):
        await receiver.finish(PLUG, DISK, answer)
    await receiver.make_room()
    assert await receiver.admit(PLUG, DISK) is None
    await receiver.finish(PLUG, DISK, answer)
    assert await receiver.admit(PLUG, DISK) == answer


async def test_a_failed_answer_is_not_given_again(receiver: Receiver) -> None:
    await receiver.admit(PLUG, DISK)
    await receiver.finish(PLUG, DISK, Answer(status=500, body="boom"))
    assert await receiver.admit(PLUG, DISK) is None


async def test_a_lower_epoch_of_the_same_saga_is_outdated(receiver: Receiver) -> None:
    await receiver.admit(PLUG, DISK)
    with pytest.raises(Outdated) as caught:
        await receiver.admit(replace(PLUG, step="other", epoch=2), "elsewhere")
    assert isinstance(caught.value, Conflict)
    assert caught.value.detail == {"status": 412}
    assert not is_taken(caught.value)
    assert await receiver.admit(replace(PLUG, saga="s2", epoch=1), "elsewhere") is None


async def test_a_lower_generation_of_the_resource_is_outdated(receiver: Receiver) -> None:
    await receiver.admit(PLUG, DISK)
    late = Operation("s0", "plug", 9, 999)
    for verb in ("PUT", "POST", "DELETE"):
        with pytest.raises(Outdated) as caught:
            await receiver.admit(late, DISK, verb)
        assert caught.value.detail == {"status": 412, "taken": DISK}
        assert is_taken(caught.value)
    assert await receiver.admit(late, "servers/1/disks/3") is None
    assert await receiver.admit(replace(late, step="more", generation=1000), DISK) is None


async def test_generations_of_a_shared_resource_are_not_compared(receiver: Receiver) -> None:
    await receiver.admit(PLUG, "images/1", shared=True)
    assert await receiver.admit(Operation("s0", "load", 1, 5), "images/1", shared=True) is None


async def test_a_saga_without_a_lock_compares_no_generation(receiver: Receiver) -> None:
    await receiver.admit(PLUG, DISK)
    assert await receiver.admit(Operation("s0", "look", 1, 0), DISK) is None


async def test_an_undone_call_is_gone_even_if_it_never_came(receiver: Receiver) -> None:
    assert await receiver.admit(PLUG, DISK, "DELETE") is None
    for verb in ("PUT", "POST"):
        with pytest.raises(Gone) as caught:
            await receiver.admit(PLUG, DISK, verb)
        assert isinstance(caught.value, Conflict)
        assert caught.value.detail == {"status": 410}
        assert PLUG.key in caught.value.public


async def test_an_undone_call_is_gone_in_every_later_epoch(receiver: Receiver) -> None:
    await receiver.admit(PLUG, DISK)
    await receiver.finish(PLUG, DISK, Answer())
    await receiver.admit(PLUG, DISK, "DELETE")
    with pytest.raises(Gone):
        await receiver.admit(replace(PLUG, epoch=7), DISK)


async def test_an_undo_may_come_again_and_gets_its_answer(receiver: Receiver) -> None:
    await receiver.admit(PLUG, DISK, "DELETE")
    await receiver.finish(PLUG, DISK, Answer(status=204), "DELETE")
    assert await receiver.admit(PLUG, DISK, "DELETE") == Answer(status=204)


async def test_a_tombstone_bars_only_its_own_operation_and_resource(receiver: Receiver) -> None:
    await receiver.admit(PLUG, DISK, "DELETE")
    assert await receiver.admit(replace(PLUG, step="again"), DISK) is None
    assert await receiver.admit(PLUG, "servers/1/disks/3") is None


async def test_a_call_that_was_undone_while_it_ran_leaves_no_answer(receiver: Receiver) -> None:
    await receiver.admit(PLUG, DISK)
    await receiver.admit(PLUG, DISK, "DELETE")
    with pytest.raises(Gone):
        await receiver.finish(PLUG, DISK, Answer())


async def test_a_refused_call_leaves_no_mark(receiver: Receiver) -> None:
    await receiver.admit(PLUG, DISK)
    outdated = Operation("s1", "plug", 2, 5000)
    with pytest.raises(Outdated):
        await receiver.admit(outdated, DISK)
    with pytest.raises(Outdated):
        await receiver.admit(Operation("s0", "plug", 8, 1), DISK, "DELETE")
    assert await receiver.admit(Operation("s0", "plug", 1, 2000), DISK) is None


async def test_of_a_secret_answer_only_the_digest_is_kept(receiver: Receiver) -> None:
    await receiver.admit(PLUG, DISK)
    answer = Answer(body={"auth": "s3cret"}, made=("a1",), secret=True)
    await receiver.finish(PLUG, DISK, answer)
    kept = await receiver.admit(PLUG, DISK)
    assert kept is not None
    assert (kept.body, kept.made, kept.secret, len(kept.digest)) == (None, ("a1",), True, 64)
    assert kept.digest == answer.as_kept().digest


async def test_what_is_swept_is_forgotten_and_the_rest_is_not(receiver: Receiver) -> None:
    await receiver.admit(PLUG, DISK)
    await receiver.finish(PLUG, DISK, Answer())
    await receiver.admit(PLUG, DISK, "DELETE")
    now = datetime.now(UTC)
    assert await receiver.sweep(now + timedelta(days=13)) == 0
    with pytest.raises(Gone):
        await receiver.admit(PLUG, DISK)
    assert await receiver.sweep(now + timedelta(days=15)) >= 3
    assert await receiver.admit(Operation("s1", "plug", 1, 1), DISK) is None


async def test_too_many_marks_are_forgotten_sooner_but_none_of_the_last_day(
    receiver: Receiver,
) -> None:
    for number in range(3):
        await receiver.admit(Operation(f"saga{number}", "plug", 1, 9), f"{DISK}{number}")
    now = datetime.now(UTC)
    assert await receiver.sweep(now + timedelta(hours=23), most=1) == 0
    assert await receiver.sweep(now + timedelta(hours=25), most=1) > 0
    with pytest.raises(Outdated):
        await receiver.admit(Operation("late", "plug", 1, 8), f"{DISK}2")
    assert await receiver.admit(Operation("late", "plug", 1, 8), f"{DISK}0") is None
