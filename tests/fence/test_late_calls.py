"""Whatever order calls come in, nothing acts behind its own undo or behind somebody newer."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from mooring.errors import Conflict
from mooring.fence.file import JournalFile
from mooring.fence.journal import Answer, Gone, Journal, Outdated, Verb
from mooring.fence.operation import Operation

pytestmark = pytest.mark.anyio
RESOURCE = "servers/1/disks/2"


class Call(Struct, frozen=True):
    """One delivery: the n-th saga (its lock's generation is n) calls in some epoch."""

    saga: int
    verb: Verb
    epoch: int
    pauses: int

    @property
    def operation(self) -> Operation:
        return Operation(f"s{self.saga}", "plug", self.epoch, 100 + self.saga)


CALLS = st.lists(
    st.builds(
        Call,
        saga=st.integers(1, 3),
        verb=st.sampled_from(["PUT", "DELETE"]),
        epoch=st.integers(1, 3),
        pauses=st.integers(0, 3),
    ),
    min_size=2,
    max_size=14,
)


def check(effects: list[Call]) -> None:
    """Hold what acted, in its order, against the law."""
    for n, effect in enumerate(effects):
        before = effects[:n]
        own = [one for one in before if one.saga == effect.saga]
        assert all(one.saga <= effect.saga for one in before), "a lower generation after a higher"
        assert all(one.epoch <= effect.epoch for one in own), "a lower epoch after a higher"
        if effect.verb == "PUT":
            assert all(one.verb == "PUT" for one in own), "made after its own undo"


@settings(max_examples=150, deadline=None)
@given(CALLS)
def test_calls_one_after_the_other(calls: list[Call]) -> None:
    effects: list[Call] = []
    with tempfile.TemporaryDirectory() as directory:
        file = JournalFile(Path(directory) / "journal.sqlite")
        for call in calls:
            try:
                earlier = file.admit(call.operation, RESOURCE, call.verb)
                if earlier is None:
                    effects.append(call)
                    file.finish(call.operation, RESOURCE, call.verb, Answer())
            except Conflict:
                continue
        file.close()
    check(effects)


@settings(max_examples=150, deadline=None)
@example([Call(1, "PUT", 1, 0), Call(1, "DELETE", 1, 0), Call(2, "PUT", 1, 0)])
@given(CALLS)
async def test_calls_at_once(calls: list[Call]) -> None:
    effects: list[Call] = []
    present: list[int] = []
    busy = 0

    async def act(call: Call) -> Answer:
        nonlocal busy
        busy += 1
        assert busy == 1, "two verbs on one resource at once"
        try:
            for _ in range(call.pauses):
                await asyncio.sleep(0)
            effects.append(call)
            present[:] = [call.saga] if call.verb == "PUT" else []
        finally:
            busy -= 1
        return Answer()

    async def deliver(call: Call) -> None:
        for _ in range(call.pauses):
            await asyncio.sleep(0)
        await journal.perform(call.operation, call.verb, RESOURCE, lambda: act(call))

    with tempfile.TemporaryDirectory() as directory:
        journal = Journal(Path(directory) / "journal.sqlite")
        outcomes = await asyncio.gather(*map(deliver, calls), return_exceptions=True)
        await journal.close()
    assert all(outcome is None or isinstance(outcome, Conflict) for outcome in outcomes)
    check(effects)
    newest = max(effect.saga for effect in effects)
    undone = any(call.verb == "DELETE" and call.saga == newest for call in effects)
    assert present == ([] if undone else [newest])


async def test_a_delete_ends_what_it_names_besides(tmp_path: Path) -> None:
    older, newer = Operation("s1", "connect", 1, 1000), Operation("s2", "unplug", 1, 1001)
    journal, connecting = Journal(tmp_path / "journal.sqlite"), asyncio.Event()

    async def connect() -> Answer:
        connecting.set()
        await asyncio.Event().wait()
        return Answer()

    async def act() -> Answer:
        return Answer()

    running = asyncio.create_task(journal.perform(older, "PUT", "connections/3", connect))
    await connecting.wait()
    await journal.perform(newer, "DELETE", RESOURCE, act, also="connections/3")
    with pytest.raises(Gone):
        await running
    with pytest.raises(Outdated):
        await journal.perform(older, "PUT", "connections/3", act)
    await journal.close()
