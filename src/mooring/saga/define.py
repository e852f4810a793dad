"""What a saga is: steps with their undos over one typed notes struct. Nothing in here runs.

A step's `do` is one of two things, told apart by how it is written:

- a plain function `do(tx, notes, run)` is a transaction: it runs inside the very transaction that
  moves the saga's bookmark, so the row it changes and the bookmark agree whatever happens;
- an `async` function `do(notes, run)` does work outside: it may be run again after a crash, so it
  finds its own work before doing it again.

Either returns new notes, or None to keep them; an async function may also return `Together`. An
`undo` has the same two forms and may find nothing to undo. The failing step is undone too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from msgspec import Struct
from sqlalchemy.orm import Session

from mooring.fence.operation import in_round

if TYPE_CHECKING:
    from mooring.errors import MooringError
    from mooring.fence.operation import Operation
    from mooring.who import Who

N = TypeVar("N", bound=Struct)
S = TypeVar("S")

Mode = Literal["refuse", "wait", "preempt"]
Heading = Literal["forward", "back", "failing", "leaving", "owing"]


class Run(Protocol[S]):
    """What a step may know and do beside its notes. The engine makes one for each attempt."""

    service: S
    saga_id: str
    attempt: int
    """How often this step was begun, from 1."""
    request_id: str
    project_id: str
    error: MooringError | None
    """In an undo, and in the steps of a bad end: why the saga failed."""
    undo_error: MooringError | None
    """In `undo_ends`, and in what is told of its end: which refusal stopped the unwinding."""
    begun: bool
    """Whether the saga's first step was done: one that waited in vain for its locks never began."""
    answered: bool
    """Whether `answered_after` was passed."""
    visible: bool
    """Whether `visible_after` was passed: what was made is there, whoever absorbs this."""
    ends_badly: bool
    """In a bad end, and in what is told of it: whether what was done stays, at least in part."""
    given_up: bool
    """Whether the service that asked for this has given it up: there is no need to wait for it."""
    pre_empted: bool
    """Whether another saga asked this one to end, to take its place."""

    @property
    def worked_s(self) -> float:
        """For how many seconds this step has been tried so far, pauses included."""
        ...

    @property
    def user(self) -> Who | None:
        """Who asked, with their token; None once it was wiped. For the steps before the answer."""
        ...

    @property
    def operation(self) -> Operation:
        """The operation of this very step, to go with each call it makes, also in its undo."""
        ...

    def generation(self, key: str) -> int:
        """Return the generation of a lock that this saga holds. Raises Bug for another key."""
        ...

    def now(self) -> datetime:
        """Return the engine's time, in UTC."""
        ...

    async def progress(self, percent: int) -> None:
        """Tell how far this step is, 0 to 100, for the operation's timeline."""
        ...


def may_be_repeated(run: Run[Any]) -> bool:
    """Whether this step may have been at work before: it was tried, or its process died."""
    return run.attempt > 1 or run.operation.epoch > 1


def look_again_s(run: Run[Any], first_s: float, longest_s: float) -> float:
    """Return how long to rest before the next look at what nobody says the end of, in seconds.

    What is over soon is seen at once, and what takes hours is not looked at every moment.
    """
    return min(longest_s, max(first_s, run.worked_s / 4))


class Park(Exception):
    """Raised by an async `do`: put the saga to rest until a signal comes or `seconds` have passed.

    The step is then run again from its start, and reads the truth: a signal is only a hint.
    `notes`, when given, are saved with the parking. Parking is not failing: it does not count as
    an attempt, and only `timeout_s`, counted from the first parking of this step, ends it: then
    the step fails with Unavailable.
    """

    def __init__(
        self,
        *,
        signal: str = "",
        seconds: float = 30.0,
        timeout_s: float = 3600.0,
        notes: Any = None,
    ) -> None:
        super().__init__(signal)
        self.signal, self.seconds, self.timeout_s, self.notes = signal, seconds, timeout_s, notes


class Together(Struct, frozen=True):
    """Returned by an async `do` or `undo`: `write(tx)` belongs to the step, and so do the `notes`.

    It runs in the very transaction that moves the bookmark, for what the notes may not carry, such
    as connection data. What it raises fails the step.
    """

    write: Callable[[Session], None]
    notes: Any = None


class Lock(Struct, frozen=True):
    """One key that a saga holds from its start to its end."""

    key: str
    shared: bool = False


def shared(key: str) -> Lock:
    """Hold `key` beside other sharers."""
    return Lock(key, shared=True)


def exclusive(key: str) -> Lock:
    """Hold `key` alone."""
    return Lock(key)


class Step:
    """One thing to do, and how to undo it.

    `name`: what journals, timelines, operations and laws call it. Bookmarks store it, so it stays
    when the function that does it gets another name.
    `undo_attempts`: after how many tries an undo, or a step of `failed_end`, that is only
    Unavailable counts as refused for good, in a saga that has `undo_ends`; 0 is never.
    `may_be_forgone`: what has no way back and may have nobody to answer it any more, such as a host
    that is gone for good, an operator's abort lets go of when it fails once more.
    `until_taken`: what is owed, and asked for again when it is refused for good. Without it a
    refusal says that nobody wants it. What a fence refuses somebody has in hand who came later.
    """

    def __init__(
        self,
        name: str,
        do: Callable[..., Any],
        undo: Callable[..., Any] | None = None,
        *,
        deadline_s: float = 300.0,
        undo_attempts: int = 0,
        may_be_forgone: bool = False,
        until_taken: bool = False,
    ) -> None:
        self.name, self.do, self.undo = name, do, undo
        self.undo_attempts, self.may_be_forgone = undo_attempts, may_be_forgone
        self.until_taken = until_taken
        self.deadline_s = deadline_s
        self.do_is_transaction = not inspect.iscoroutinefunction(do)
        self.undo_is_transaction = undo is not None and not inspect.iscoroutinefunction(undo)


class Each:
    """The same steps for each of several items, one item after the other.

    `items(notes)` returns ids. It must give the same ids in the same order whenever it is asked
    again, so it reads only what no step inside changes. Inside, `do` and `undo` take the item:
    `do(notes, item, run)` or `do(tx, notes, item, run)`.
    """

    def __init__(self, name: str, items: Callable[[Any], Sequence[str]], *steps: Step) -> None:
        self.name, self.items, self.steps = name, items, steps


class Child:
    """Another saga of the same service, started once and waited for.

    Its id is made from the parent's id and this step's name, so a parent that runs the step again
    finds it. A child that ends badly fails the step. The undo of the step aborts a child that still
    runs; `undo` names the saga (built from the same notes) that takes back one that has finished.
    """

    def __init__(
        self,
        name: str,
        saga: Saga[Any],
        notes: Callable[[Any], Struct],
        *,
        undo: tuple[Saga[Any], Callable[[Any], Struct]] | None = None,
    ) -> None:
        self.name, self.saga, self.notes, self.undo = name, saga, notes, undo


Part = Step | Each | Child


def _say_nothing(*_: object) -> None:
    """Tell nobody."""


class Story(Struct, frozen=True):
    """What is told of an operation, and when: a record, an event, a notification, a message.

    Each is a plain function `(tx, notes, run)`. The engine calls it once, in the very transaction
    in which it comes true, behind the step that leads there; when it raises, that step has failed.

    begun     the first step is done
    answered  the step `answered_after` is done
    passed    the step of that name is done
    ended     everything is done
    failed    it was unwound or came to a bad end; `run` knows why, and how far it had come
    absorbed  another saga took its place
    """

    begun: Callable[..., None] = _say_nothing
    answered: Callable[..., None] = _say_nothing
    passed: Mapping[str, Callable[..., None]] = {}
    ended: Callable[..., None] = _say_nothing
    failed: Callable[..., None] = _say_nothing
    absorbed: Callable[..., None] = _say_nothing


class Former(Struct, frozen=True):
    """How bookmarks of the version before are read, once, when they are taken over.

    steps   what a step is called now that had another name, or is part of another one
    notes   makes today's notes of theirs, as plain data
    leaves  whether one with these notes that unwinds had met with a refusal for good
    """

    steps: Mapping[str, str] = {}
    notes: Callable[[dict[str, Any]], dict[str, Any]] = dict
    leaves: Callable[[dict[str, Any]], bool] = lambda _: False


class Again(Struct, frozen=True):
    """Where an unwinding may turn forward once more, to try what failed in another way.

    step    the one whose undo is done by then; it stands outside of every Each, is not the first,
            and everything behind it was taken back
    notes   plain `(notes, run)`: the notes to go on with, or None to unwind the rest. `run.error`
            is why it failed. It ends after so many tries as the notes say: the engine counts none
    told    `(tx, notes, run)` with the old notes, in the transaction that turns it

    An aborted saga is not asked. From this step on each round has operations of its own
    (`run.operation`): what the round before was refused, or took back, is not taken for the same.
    What stands before it is done once, and undone under the operation that did it.
    """

    step: str
    notes: Callable[[Any, Any], Any]
    told: Callable[..., None] = _say_nothing


class Saga(Generic[N]):
    """A named table of steps. Making one files it in `REGISTRY`, where engine and laws find it.

    name            `<service>.<verb>_<noun>`
    notes           the struct that is all the saga knows between two steps, frozen: a step returns
                    new ones, and what was laid out for the old ones is known to be old
    steps           in order
    version         raised when steps or notes change so that old bookmarks need `former`
    locks           the keys to hold, from the notes
    mode            how the locks are taken: "refuse", "wait" or "preempt"
    answered_after  the step whose end the HTTP request waits for
    visible_after   the step from whose end on clients can see the result
    lets_go         the keys, of its locks, that it holds no longer from there on, from the notes
    gives_way       whether a user may insist on something else: it is waited for as if its result
                    could be seen, and if it stays, a saga that pre-empts it may take its place
    pivot           the step from whose beginning on there is only forward
    failed_end      the steps of a bad end behind the pivot
    undo_ends       the steps of a bad end where an undo, or a step of `failed_end`, is refused for
                    good: it and what would follow are not run any more
    owes            what the saga owes to other services when another one absorbs it; its locks are
                    the other's by then, and what it did to rows of its own service too
    again           where an unwinding may turn forward once more
    story           what is told of it, and when
    former          how to read bookmarks of the version before
    kept_after      the step behind which an undo is refused, as what was made was shown already:
                    the saga fails, with everything as if it had not; for the laws
    residue         what a failure may leave behind, for the laws: names of snapshot keys
    """

    def __init__(
        self,
        name: str,
        notes: type[N],
        *steps: Part,
        version: int = 1,
        locks: Callable[[N], Sequence[Lock]] | None = None,
        mode: Mode = "refuse",
        answered_after: str = "",
        visible_after: str = "",
        lets_go: Callable[[N], Sequence[str]] | None = None,
        gives_way: bool = False,
        pivot: str = "",
        kept_after: str = "",
        failed_end: Sequence[Step] = (),
        undo_ends: Sequence[Step] = (),
        owes: Sequence[Step] = (),
        again: Again | None = None,
        residue: Sequence[str] = (),
        story: Story | None = None,
        former: Former | None = None,
    ) -> None:
        self.name, self.notes, self.steps, self.version = name, notes, steps, version
        self.locks: Callable[[N], Sequence[Lock]] = locks or (lambda _: ())
        self.lets_go = lets_go
        self.mode: Mode = mode
        self.answered_after, self.visible_after, self.pivot = answered_after, visible_after, pivot
        self.kept_after = kept_after
        self.failed_end, self.residue = tuple(failed_end), tuple(residue)
        self.undo_ends, self.owes = tuple(undo_ends), tuple(owes)
        self.story, self.former, self.gives_way, self.again = story, former, gives_way, again
        self._check()
        self._once = self._done_once()
        REGISTRY[(name, version)] = self

    def key_in(self, number: int, place_key: str) -> str:
        """Return what a place is called in a round; what is done once, as in the first one."""
        is_once = place_key.partition(":")[0] in self._once
        return place_key if is_once else in_round(number, place_key)

    def _check(self) -> None:
        ends = {*self.failed_end, *self.undo_ends, *self.owes}
        names = [step.name for part in self.steps for step in _flat(part)]
        names += [step.name for step in ends]
        if not self.notes.__struct_config__.frozen:
            raise ValueError(f"the notes of saga {self.name} are not frozen")
        if len(names) != len(set(names)):
            raise ValueError(f"saga {self.name} names a step twice: {names}")
        for column in ("answered_after", "visible_after", "pivot", "kept_after"):
            named = getattr(self, column)
            if named and named not in names:
                raise ValueError(f"saga {self.name} has no step {named} for {column}")
        ways = [name for name in names if name in (self.pivot, self.visible_after)]
        if self.lets_go and (self.pivot not in ways or ways[-1] != self.visible_after):
            raise ValueError(f"saga {self.name} lets go of what it may have to take back")
        if self.failed_end and not self.pivot:
            raise ValueError(f"saga {self.name} has a failed_end and no pivot")
        if self.again and self.again.step not in self._places_of_return():
            raise ValueError(f"saga {self.name} cannot begin again at {self.again.step}")
        if self.former and self.version == 1:
            raise ValueError(f"saga {self.name} has a former version and is the first")

    def _places_of_return(self) -> list[str]:
        """Return the steps that may be begun again: single ones, but the first, up to the pivot."""
        names = [part.name for part in self.steps[1:] if isinstance(part, Step)]
        return names[: names.index(self.pivot)] if self.pivot in names else names

    def _done_once(self) -> frozenset[str]:
        """Return the names of the steps before the one that may be begun again."""
        names = [step.name for part in self.steps for step in _flat(part)]
        return frozenset(names[: names.index(self.again.step)] if self.again else ())


def _flat(part: Part) -> Sequence[Step | Child]:
    return part.steps if isinstance(part, Each) else (part,)


REGISTRY: dict[tuple[str, int], Saga[Any]] = {}
