"""Who may act: the rules that a receiver applies to every call that carries an operation.

The operation's saga only ever goes forward and then back, its epoch and the generations of its
locks only ever grow. So three marks suffice to refuse whoever comes too late: the highest epoch
of each saga, the highest generation of each resource, and a tombstone for each operation that was
undone, also when its call never came.

The rules hold for agents and for services; where their records lie is a matter of `Records`.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct

from mooring.errors import Conflict
from mooring.fence.operation import Operation

Verb = Literal["PUT", "POST", "DELETE"]
GONE, OUTDATED = 410, 412
TAKEN = "taken"
"""In the detail of a refusal: what a newer lock has taken."""


class Gone(Conflict):
    """The operation was undone before this call came (or while it ran). Answered with 410."""

    def __init__(self, public: str, *, private: str = "", **detail: Any) -> None:
        super().__init__(public, private=private, **{**detail, "status": GONE})


class Outdated(Conflict):
    """Somebody newer has acted on the saga or on the resource. Answered with 412."""

    def __init__(self, public: str, *, private: str = "", **detail: Any) -> None:
        super().__init__(public, private=private, **{**detail, "status": OUTDATED})


def is_fenced(error: BaseException) -> bool:
    """Whether a fence refused a call: our own, an agent's or another service's.

    Somebody who came later has the thing in hand then. An agent's refusal has the status that we
    would answer, `status`; another service's has the one that came, `http_status`.
    """
    if not isinstance(error, Conflict):
        return False
    return error.detail.get("http_status", error.detail.get("status")) in {GONE, OUTDATED}


def is_taken(error: BaseException) -> bool:
    """Whether a fence refused a call because a newer lock has called for the same thing there.

    An undone operation and a saga's former owner are refused for what they are, whatever has
    become of the thing.
    """
    return is_fenced(error) and isinstance(error, Conflict) and TAKEN in error.detail


class Answer(Struct, frozen=True, kw_only=True):
    """What a call was answered: kept, so that the same operation gets it again.

    `made` names the ids of what the operation made. Of a `secret` answer (connection data) only the
    digest is kept: an agent runs the verb again, a service makes the body anew from its own rows.
    """

    status: int = 200
    body: Any = None
    made: tuple[str, ...] = ()
    secret: bool = False
    digest: str = ""

    def as_kept(self) -> Answer:
        """Return what may be written down of it."""
        if not self.secret:
            return self
        digest = hashlib.sha256(msgspec.json.encode(self.body)).hexdigest()
        return Answer(status=self.status, made=self.made, secret=True, digest=digest)


class Records(Protocol):
    """Where a receiver keeps its marks. All that one call does to them is one transaction."""

    def raise_epoch(self, saga: str, epoch: int) -> int:
        """Keep the higher epoch of the saga and return it; nobody else reads it meanwhile."""
        ...

    def raise_generation(self, resource: str, generation: int) -> int:
        """Keep the higher generation of the resource and return it, as with epochs."""
        ...

    def is_buried(self, key: str, resource: str) -> bool:
        """Return whether a tombstone stands for the operation on the resource, or on all."""
        ...

    def bury(self, key: str, resource: str) -> None:
        """Leave a tombstone for the operation on the resource; on all when it is empty."""
        ...

    def answer(self, key: str, resource: str, verb: Verb) -> Answer | None:
        """Return the answer that was kept."""
        ...

    def keep(self, key: str, resource: str, verb: Verb, answer: Answer) -> None:
        """Keep an answer."""
        ...


def admit(
    records: Records,
    operation: Operation,
    resource: str,
    verb: Verb,
    *,
    shared: bool = False,
    also: str = "",
) -> Answer | None:
    """Let a call act (None), or return the answer that the same call got before.

    A DELETE is the undo of the same operation's PUT or POST on the resource: it leaves a tombstone.
    Where a DELETE was the deed, a PUT undoes it (`Operation.again`): the DELETE counts as done from
    then on, so one that comes late does nothing.
    `shared` resources (an image that many servers need) are used under different locks at once, so
    their generations are not compared; nor is the generation of a saga without a lock, 0.
    `also` is another resource that the call ends: its generation counts, and is raised, as well.
    Raises Gone (410) behind a tombstone, Outdated (412) for a lower epoch or generation.
    """
    _check_epoch(records, operation)
    if operation.generation and not shared:
        for taken in filter(None, (resource, also)):
            _check_generation(records, operation, taken)
    if verb == "DELETE":
        records.bury(operation.key, resource)
    elif records.is_buried(operation.key, resource):
        raise gone(operation, resource)
    elif operation.takes_back and records.answer(operation.takes_back, resource, "DELETE") is None:
        records.keep(operation.takes_back, resource, "DELETE", Answer(status=204))
    return records.answer(operation.key, resource, verb)


def finish(
    records: Records, operation: Operation, resource: str, verb: Verb, answer: Answer
) -> None:
    """Keep the answer of a call that was admitted and has succeeded. Raises Gone if it was undone.

    An answer that failed is not kept: the operation may be run again.
    """
    if verb != "DELETE" and records.is_buried(operation.key, resource):
        raise gone(operation, resource)
    if answer.status < 400:
        records.keep(operation.key, resource, verb, answer.as_kept())


def gone(operation: Operation, resource: str) -> Gone:
    """Return the refusal of a call behind its own undo."""
    where = f" on {resource}" if resource else ""
    return Gone(
        f"Operation {operation.key}{where} has been undone; this call came too late and has no "
        "effect."
    )


def _check_epoch(records: Records, operation: Operation) -> None:
    epoch = records.raise_epoch(operation.saga, operation.epoch)
    if epoch > operation.epoch:
        raise Outdated(
            f"Operation {operation.key} has another owner now; this call came too late and has no "
            "effect.",
            private=f"epoch {operation.epoch}, newest {epoch}",
        )


def _check_generation(records: Records, operation: Operation, resource: str) -> None:
    generation = records.raise_generation(resource, operation.generation)
    if generation > operation.generation:
        raise Outdated(
            f"A newer operation has taken {resource}; operation {operation.key} came too late and "
            "has no effect.",
            private=f"generation {operation.generation}, newest {generation}",
            **{TAKEN: resource},
        )
