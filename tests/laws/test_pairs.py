"""Law *pairs*: while one operation is in any of its calls, another begins on the same things.

Nothing is known of how they end, but each request is answered, both end, and everything agrees.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest
from msgspec import Struct

from mooring.errors import Conflict
from mooring.saga import laws
from mooring.saga.locks import LOCK_WAIT_S
from tests.answers import Answer
from tests.laws import (
    basics,
    evacuation_scenarios,
    local_move_scenarios,
    scenarios,
    standstill_scenarios,
)
from tests.laws.backup_scenarios import back_up
from tests.laws.extend_scenarios import extend
from tests.laws.meddlers import Meddling
from tests.laws.move_scenarios import (
    a_server_that_moved,
    a_server_that_moves,
    a_server_with_a_local_disk,
    cold_migrate,
    confirm,
    live_migrate,
    resize,
    revert,
)
from tests.laws.sites import COMPUTE, STORE, THIRD, Call, Do, Scenario, Site
from tests.laws.swap_scenarios import swap
from tests.laws.trials import Trials
from tests.laws.volume_snapshot_scenarios import migrate_volume, take_snapshot

pytestmark = pytest.mark.anyio
PARTS = 3


async def two_volumes(site: Site) -> None:
    await basics.a_server_with_volume(site)
    await basics.a_volume(site, "spare")


async def two_volumes_that_move(site: Site) -> None:
    """The same, of a server that can move: it boots from a third volume."""
    await a_server_that_moves(site)
    await _name(site)


async def two_volumes_that_moved(site: Site) -> None:
    """The same, of a server that has moved and may go back."""
    await a_server_that_moved(site)
    await _name(site)


async def two_volumes_of_one_away(site: Site) -> None:
    """The same, of a server that was put away."""
    await two_volumes_that_move(site)
    await site.get("POST", f"{COMPUTE}/servers/{{server}}/action", {"shelve": None})


async def two_volumes_of_a_dead_host(site: Site) -> None:
    """The same, of a server whose host has no power any more."""
    await evacuation_scenarios.cut_power(site, two_volumes_that_move)


async def two_volumes_beside_a_disk(site: Site) -> None:
    """The same, of a server that can move, and takes along the root disk on its host."""
    await a_server_with_a_local_disk(site)
    await _name_beside(site)


async def two_volumes_beside_a_disk_that_moved(site: Site) -> None:
    """The same, of one that has moved and may go back."""
    await local_move_scenarios.a_disk_that_moved(site)
    await _name_beside(site)


async def two_volumes_beside_a_disk_that_grew(site: Site) -> None:
    """The same, of one whose disk is larger than before, and may be as it was again."""
    await local_move_scenarios.a_disk_that_grew(site)
    await _name_beside(site)


async def _name_beside(site: Site) -> None:
    site.names["volume"] = site.names.pop("data")
    await basics.a_volume(site, "spare")


async def _name(site: Site) -> None:
    site.names["root"] = site.names["volume"]
    site.names["volume"] = site.names.pop("data")
    await basics.a_volume(site, "spare")


_ACTS: dict[str, Do] = {one.name: one.act for one in scenarios.SCENARIOS}
MOVES: dict[str, Do] = {
    "live migrate": live_migrate,
    "cold migrate": cold_migrate,
    "resize": resize,
    "shelve": _ACTS["shelve"],
}
WORDS: dict[str, Do] = {"confirm": confirm, "revert": revert}
BACK: dict[str, Do] = {"unshelve": _ACTS["unshelve"]}
RESCUED: dict[str, Do] = {"evacuate": evacuation_scenarios.evacuate}
STORED: dict[str, Do] = {"migrate volume": migrate_volume}
"""What needs a server that was put away, one of a dead host, and a pool to go to."""
ACTS: dict[str, Do] = {
    "attach": partial(basics.attach, name="spare"),
    "detach": basics.detach,
    "delete server": basics.delete_server,
    "stop": basics.stop,
    "reboot": basics.reboot,
    "hard reboot": basics.reboot_hard,
    "make image": _ACTS["make image"],
    "pause": standstill_scenarios.pause,
    "suspend": standstill_scenarios.suspend,
    "rescue": _ACTS["rescue"],
    "reset state": basics.reset_state,
    "boot from spare": partial(basics.boot_from_volume, name="spare"),
    "delete volume": basics.delete_volume,
    "delete spare": partial(basics.delete_volume, name="spare"),
    "force-delete volume": basics.force_delete,
    "reset status": partial(
        basics.act_on_volume,
        action="os-reset_status",
        value={"status": "error"},
        user="admin",
        name="spare",
    ),
    "delete attachment": basics.delete_attachments,
    "extend": extend,
    "extend spare": partial(extend, name="spare"),
    "take snapshot": take_snapshot,
    "swap": swap,
    "back up": partial(back_up, force=True),
    "back up spare": partial(back_up, volume_id="{spare}"),
    **MOVES,
    **WORDS,
    **BACK,
    **RESCUED,
    **STORED,
}
FIRST = [name for name in ACTS if name != "delete volume"]


LOCAL: dict[str, Do] = {
    "block migrate": local_move_scenarios.block_migrate,
    "cold migrate local": cold_migrate,
    "grow disk": local_move_scenarios.grow,
    "shelve local": _ACTS["shelve"],
}
LOCAL_WORDS: dict[str, Do] = {"confirm local": confirm, "revert local": revert}
GROWN_WORDS: dict[str, Do] = {"confirm growth": confirm, "revert growth": revert}
"""What moves a server with its root disk on its host, or changes that, and the words after it."""
MEETS_DISK = (
    *("attach", "detach", "delete server", "stop", "hard reboot", "make image", "pause"),
    *("suspend", "rescue", "reset state"),
)
"""What may come to another end where the root disk goes along: what has to do with the guest."""
MEETS_GROWN = ("delete server", "hard reboot", "make image", "reset state")
PARTS_OF_LOCAL = 2
ACTS_OF_ALL = {**ACTS, **LOCAL, **LOCAL_WORDS, **GROWN_WORDS}


class Pair(Struct, frozen=True):
    """Two acts, and a share of the first one's calls."""

    first: str
    second: str
    part: int
    parts: int = PARTS

    def __str__(self) -> str:
        return f"{self.first}-{self.second}-{self.part}"


def _meet(acts: Iterable[str], others: Iterable[str]) -> list[Pair]:
    """Return each two of the acts, and each with each of the others, either way round."""
    own = list(acts)
    both = [*itertools.product(own, own)]
    for one, other in itertools.product(own, others):
        both += [(one, other), (other, one)]
    return [Pair(*two, part, PARTS_OF_LOCAL) for two in both for part in range(PARTS_OF_LOCAL)]


PAIRS = [
    *(Pair(one, other, part) for one in FIRST for other in ACTS for part in range(PARTS)),
    *_meet({**LOCAL, **LOCAL_WORDS}, MEETS_DISK),
    *_meet(GROWN_WORDS, MEETS_GROWN),
]


def scene(name: str, *others: str) -> Scenario:
    """Return the one act as a scenario, on ground where the others have a meaning, too.

    Which saga it starts does not matter here.
    """
    arrange, hosts, met = two_volumes, tuple[str, ...](), {name, *others}
    grounds = (
        (GROWN_WORDS, two_volumes_beside_a_disk_that_grew),
        (LOCAL_WORDS, two_volumes_beside_a_disk_that_moved),
        (LOCAL, two_volumes_beside_a_disk),
        (RESCUED, two_volumes_of_a_dead_host),
        (BACK, two_volumes_of_one_away),
        (WORDS, two_volumes_that_moved),
        (MOVES, two_volumes_that_move),
    )
    for acts, ground in grounds:
        if not met.isdisjoint(acts):
            arrange, hosts = ground, (THIRD,)
            break
    if not met.isdisjoint(STORED):
        hosts = (*hosts, STORE)
    saga, returns = scenarios.SCENARIOS[0].saga, not met.isdisjoint(RESCUED)
    return Scenario(name, saga, arrange, ACTS_OF_ALL[name], hosts=hosts, host_returns=returns)


@pytest.mark.cases(PAIRS, 5)
async def test_two_operations_on_the_same_things_both_end(trials: Trials, case: Pair) -> None:
    act = scene(case.first, case.second)
    for nth in range(1 + case.part, 1 + await trials.count_calls(act), case.parts):
        async with trials.begin(act) as trial:
            call = Meddling(trial.cloud, "held_before", nth)
            trial.site.meddler = call
            first = asyncio.create_task(trial.act())
            if not await trial.cloud.until(call.held, first):
                continue
            second = asyncio.create_task(ACTS_OF_ALL[case.second](trial.site))
            await asyncio.wait({second}, timeout=0.05)
            call.release()
            await asyncio.gather(first, second)
            await trial.settle()
            await laws.require_peace(trial, f"{case} at {call.calls[nth - 1]}")
            answers: list[Answer | None] = [trial.answer, second.result()]
            assert all(_is_answer(answer) for answer in answers), answers


def _is_answer(answer: Answer | None) -> bool:
    """Whether a request was answered, if only that this cloud does not do it."""
    return answer is None or answer.status < 500 or answer.status == 501


@pytest.mark.parametrize("name", sorted({*ACTS} - {*MOVES, *WORDS, *BACK, *RESCUED, *STORED}))
async def test_who_waits_too_long_gives_up_and_leaves_no_trace(trials: Trials, name: str) -> None:
    async with trials.begin(scene("attach")) as trial:
        call = HoldsUndo(trial.cloud)
        trial.site.meddler = call
        last = "compute.attach_volume/give/forward/after"
        trial.probe.arm(last, lambda: Conflict("A law let this step fail."))
        first = asyncio.create_task(trial.act())
        assert await trial.cloud.until(call.held, first)
        second = asyncio.create_task(ACTS[name](trial.site))
        await asyncio.wait({second}, timeout=0.1)
        await trial.cloud.pass_time(LOCK_WAIT_S + 1.0)
        call.release()
        await asyncio.gather(first, second)
        await trial.settle()
        await laws.require_peace(trial, f"{name} waiting for an attach")


class HoldsUndo(Meddling):
    """Holds the first call that takes a disk from a guest."""

    async def pass_on(self, call: Call) -> Any:
        takes = call.what.startswith("DELETE /servers/") and "/disks/" in call.what
        if takes and not self.held.is_set():
            await self.hold()
        return await call.forward()
