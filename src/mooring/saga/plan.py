"""A saga laid out flat: which place comes after which, for one set of notes."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from mooring.saga.define import Child, Each, Heading, Part, Saga, Step

CHILD_DEADLINE_S = 86400.0


class Place(Struct, frozen=True):
    """One step, and inside an Each the item it is for."""

    part: Step | Child
    item: str = ""

    @property
    def name(self) -> str:
        """The step's name, as the bookmark stores it."""
        return self.part.name

    @property
    def deadline_s(self) -> float:
        """For how many seconds of work this place is tried again."""
        return self.part.deadline_s if isinstance(self.part, Step) else CHILD_DEADLINE_S

    @property
    def undo_attempts(self) -> int:
        """After how many tries an undo that is only Unavailable is given up; 0 is never."""
        return self.part.undo_attempts if isinstance(self.part, Step) else 0

    @property
    def may_be_forgone(self) -> bool:
        """Whether an operator may have the saga go on without it."""
        return isinstance(self.part, Step) and self.part.may_be_forgone

    @property
    def until_taken(self) -> bool:
        """Whether what is owed here is asked for again after a refusal."""
        return isinstance(self.part, Step) and self.part.until_taken

    @property
    def key(self) -> str:
        """The name that sets this place apart from the same step for another item."""
        return f"{self.name}:{self.item}" if self.item else self.name


class Plan:
    """The places of one saga for its present notes, in order."""

    def __init__(self, saga: Saga[Any], notes: Any) -> None:
        self.saga, self.notes = saga, notes
        self.places: list[Place] = []
        # Made anew for each step that has new notes: calls are counted (docs/benchmarks.md).
        for part in saga.steps:
            if isinstance(part, Each):
                self.places += [
                    Place(step, item) for item in part.items(notes) for step in part.steps
                ]
            else:
                self.places.append(Place(part))
        self._pivot = self._index_of_pivot()

    def with_notes(self, notes: Any) -> Plan:
        """Return the plan for these notes: this one if they are its own, as notes never change."""
        return self if notes is self.notes else Plan(self.saga, notes)

    def first(self, heading: Heading) -> Place | None:
        """Return where a saga that turns to this heading begins; None when it has no places."""
        track = self._track(heading)
        return track[0] if track else None

    def find(self, heading: Heading, step: str, item: str) -> Place | None:
        """Return the place that a bookmark names; None when these notes have no such place."""
        for place in self._track(heading):
            if place.part.name == step and place.item == item:
                return place
        return None

    def after(self, heading: Heading, place: Place) -> Place | None:
        """Return the place that comes next in this heading; None at the end of the way."""
        track = self._track(heading)
        index = track.index(place) + (-1 if heading == "back" else 1)
        return track[index] if 0 <= index < len(track) else None

    def _track(self, heading: Heading) -> list[Place]:
        if heading == "failing":
            return [Place(step) for step in self.saga.failed_end]
        if heading == "leaving":
            return [Place(step) for step in self.saga.undo_ends]
        if heading == "owing":
            return [Place(step) for step in self.saga.owes]
        return self.places

    def is_behind_pivot(self, place: Place) -> bool:
        """Whether from this place on there is only forward."""
        return self._pivot is not None and self.places.index(place) >= self._pivot

    def _index_of_pivot(self) -> int | None:
        for index, place in enumerate(self.places):
            if place.part.name == self.saga.pivot:
                return index
        # The pivot may stand in an Each that has no items: then what follows is behind it.
        return self._index_after_empty_pivot() if self.saga.pivot else None

    def _index_after_empty_pivot(self) -> int:
        before = 0
        for part in self.saga.steps:
            if isinstance(part, Each) and any(step.name == self.saga.pivot for step in part.steps):
                break
            before += sum(1 for place in self.places if place.name in _names(part))
        return before


def _names(part: Part) -> set[str]:
    return {step.name for step in part.steps} if isinstance(part, Each) else {part.name}
