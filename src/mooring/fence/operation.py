"""The header that names the operation behind a call: `<saga>.<step>;<epoch>;<generation>`."""

from __future__ import annotations

import re

from msgspec import Struct

from mooring.errors import Invalid

HEADER = "Mooring-Operation"
INCARNATION_HEADER = "Mooring-Incarnation"
AGAIN = "again"
_FORM = re.compile(r"^([A-Za-z0-9-]{1,64})\.([A-Za-z0-9_.:-]{1,128});(\d{1,18});(\d{1,18})$")
_ROUND = re.compile(r"^\d+\.")


class Operation(Struct, frozen=True):
    """One step of one saga, as the receiver of its call sees it.

    `epoch` counts the owners that the saga has had; `generation` counts the takings of the lock on
    the resource. Both only grow, so a call with a lower one comes from somebody who lost.
    """

    saga: str
    step: str
    epoch: int
    generation: int

    @property
    def key(self) -> str:
        """What the receiver files the operation under: the same in every epoch."""
        return f"{self.saga}.{self.step}"

    @property
    def takes_back(self) -> str:
        """The key of the DELETE that this call undoes; empty for all that `again` did not make."""
        step, _, last = self.step.rpartition(".")
        return f"{self.saga}.{step}" if step and last == AGAIN else ""

    def of_step(self, step: str) -> Operation:
        """Return the operation of another step of the same saga, in the same round."""
        before = _ROUND.match(self.step)
        of_round = f"{before[0]}{step}" if before else step
        return Operation(self.saga, of_round, self.epoch, self.generation)

    def again(self) -> Operation:
        """Return the operation of the PUT that undoes this operation's DELETE."""
        return Operation(self.saga, f"{self.step}.{AGAIN}", self.epoch, self.generation)

    def __str__(self) -> str:
        return f"{self.saga}.{self.step};{self.epoch};{self.generation}"


def in_round(number: int, step: str) -> str:
    """Return what a step is called in a round: by its own name alone in the first one."""
    return step if number == 1 else f"{number}.{step}"


def parse(header: str | None) -> Operation | None:
    """Read the header; None when there is none. Raises Invalid when it is malformed."""
    if not header:
        return None
    match = _FORM.match(header)
    if match is None:
        raise Invalid(f"The header {HEADER} is malformed.", private=header[:200])
    saga, step, epoch, generation = match.groups()
    return Operation(saga, step, int(epoch), int(generation))
