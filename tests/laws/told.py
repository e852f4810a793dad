"""Law *told*: the notification of a saga's end is there exactly when its end is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring.notify import outbox
from mooring.notify.outbox import Notification
from mooring.saga.define import Saga
from mooring.saga.tables import SagaRow
from tests.cloud import SimulatedCloud

WITH_ERROR = ("start", "end", "error")


class Event(Struct, frozen=True):
    """A notification: `event`, with a phase behind it where it has phases.

    `when` says it of each phase, as the page of all notifications shows it.
    """

    event: str
    when: str
    phases: tuple[str, ...] = ("start", "end")
    is_error: bool = False
    """Whether it has the priority ERROR, which one with a phase `error` has by that."""

    def named(self) -> set[str]:
        """Return what it is called when it is sent."""
        return {f"{self.event}.{phase}" for phase in self.phases} or {self.event}


class Story(Event, frozen=True, kw_only=True):
    """What sagas tell about a kind of thing: the event ends exactly when one of them is done."""

    about: str
    sagas: tuple[Saga[Any], ...]
    otherwise: str = ""
    """The event, with its phase, that it may end with instead."""


BESIDE = [
    Event("volume.update", "name, description or metadata changed by PUT"),
    Event("volume.transfer.create", "it was offered to others, in one step"),
    Event(
        "volume.transfer.accept",
        "another project took it; `tenant_id` is its former one, and its new one",
    ),
    Event("volume.transfer.delete", "it is offered no longer"),
    Event("backup.reset_status", "a status was set by hand"),
    Event("instance.live_migration_abort", "a live migration was asked to end so"),
    Event("instance.live_migration_force_complete", "a live migration was asked to end so"),
    Event("instance.lock", "done", phases=()),
    Event("instance.unlock", "done", phases=()),
]
"""What no saga tells of; the other events stand with the scenarios of their features."""


class _Ending(Struct, frozen=True):
    name: str
    outcome: str
    is_visible: bool
    notes: dict[str, Any]


async def complain(cloud: SimulatedCloud, events: Sequence[Event]) -> list[str]:
    """Return where what was told is not what happened, or is none of the events."""
    known = {name for event in events for name in event.named()}
    stories = [event for event in events if isinstance(event, Story)]
    lines: list[str] = []
    for service in ("volume", "share", "compute"):
        store = cloud.cloud.stores[service]
        sagas = await store.read(_sagas)
        told = await store.read(outbox.read)
        for story in stories:
            if story.sagas[0].name.startswith(service):
                lines += _compare(story, sagas, told)
        strange = {one.event_type for one in told} - known
        lines += [f"{event} was told, and nothing says when" for event in sorted(strange)]
    return lines


def _sagas(tx: Session) -> list[_Ending]:
    rows = tx.execute(select(SagaRow.name, SagaRow.outcome, SagaRow.visible, SagaRow.notes))
    return [_Ending(*row) for row in rows]


def _compare(story: Story, sagas: Sequence[_Ending], told: Sequence[Notification]) -> list[str]:
    tellers = {saga.name for saga in story.sagas}
    mine = [saga for saga in sagas if saga.name in tellers]
    done = {saga.notes[story.about] for saga in mine if saga.outcome == "done"}
    # One whose place another saga took may have told its end where it had shown what it made.
    may = Counter(s.notes[story.about] for s in mine if s.outcome == "done" or s.is_visible)
    known = {f"{story.event}.end", story.otherwise}
    ends = Counter(_about(story, one) for one in told if one.event_type in known)
    phases = Counter(one.event_type.removeprefix(f"{story.event}.") for one in told)
    lines: list[str] = []
    # A second saga that found nothing left to delete is done, and tells nothing.
    if not done <= ends.keys() or any(ends[about] > may[about] for about in ends):
        lines.append(f"{sorted(known)} was told of {dict(ends)}, and done is {sorted(done)}")
    silent = sum(saga.outcome in {"absorbed", ""} for saga in mine)
    unended = phases["start"] - phases["end"] - phases["error"]
    if "error" in story.phases and not 0 <= unended <= silent:
        lines.append(f"{story.event} was told as {dict(phases)}")
    return lines


def _about(story: Story, one: Notification) -> str:
    data = one.payload.get("nova_object.data", one.payload)
    return data["uuid" if story.about == "server_id" else story.about]
