"""Faults seeded in the engine of sagas."""

from __future__ import annotations

from tests.mutants.mutant import CALLS, CRASHING, FAILING, STEPS, Mutant

MUTANTS = [
    Mutant(
        "undos are skipped",
        "saga/teller.py",
        'if mark.heading == "back" and step.undo is None:',
        'if mark.heading == "back":',
        STEPS,
        f"{FAILING} and attach_volume and give",
    ),
    Mutant(
        "the failing step is not undone",
        "saga/teller.py",
        'mark.heading = "back"\n        self._stand_at(place)',
        'mark.heading = "back"\n        self._stand_at(self.plan().after("back", place))',
        STEPS,
        f"{FAILING} and attach_volume and create_attachment",
    ),
    Mutant(
        "locks are not released",
        "saga/engine.py",
        "granted = locks.release(tx, saga_id)",
        "granted: list[str] = []",
        "tests/saga/test_engine.py",
    ),
    Mutant(
        "locks are not looked at",
        "saga/engine.py",
        "obstacles = locks.find_obstacles(tx, wanted, kin)",
        "obstacles: list[str] = []",
        "tests/saga/test_engine.py",
    ),
    Mutant(
        "saves are not guarded by the epoch",
        "saga/journal.py",
        "of_id=mark.id, of_epoch=mark.epoch",
        "of_id=mark.id, of_epoch=_epoch_of(tx, mark.id)",
        CALLS,
        "sleeper and attach-held_after",
        "\n\ndef _epoch_of(tx: Session, saga_id: str) -> int:\n"
        "    query = select(_sagas.c.epoch).where(_sagas.c.id == saga_id)\n"
        "    return tx.execute(query).scalar_one()\n",
    ),
    Mutant(
        "a takeover keeps the epoch",
        "saga/ownership.py",
        '"epoch": _sagas.c.epoch + 1',
        '"epoch": _sagas.c.epoch',
        CALLS,
        "sleeper and attach-held",
    ),
    Mutant(
        "signals are not kept",
        "saga/journal.py",
        "    if not found:\n        tx.execute(insert(_signals)",
        "    if found:\n        tx.execute(insert(_signals)",
        "tests/saga/test_engine.py",
    ),
    Mutant(
        "what is unavailable is not tried again",
        "saga/teller.py",
        "if again and mark.spent_s < place.deadline_s and not mark.abort:",
        "if again and mark.spent_s < 0:",
        STEPS,
        "trouble_that_passes and attach_volume",
    ),
    Mutant(
        "behind the pivot there is a way back",
        "saga/plan.py",
        "return self._pivot is not None and self.places.index(place) >= self._pivot",
        "return False",
        STEPS,
        f"{FAILING} and detach_volume",
    ),
    Mutant(
        "nobody is asked to make way",
        "saga/engine.py",
        'if saga.mode == "preempt":',
        'if saga.mode == "nobody":',
        STEPS,
        f"{CRASHING} and insist_on_reboot",
    ),
    Mutant(
        "who gave up waiting for a lock is tried for ever",
        "saga/turn.py",
        "return part.undo is None or part.undo_is_transaction",
        "return part.undo_is_transaction",
        "tests/saga/test_engine.py",
        "too_long",
    ),
]
