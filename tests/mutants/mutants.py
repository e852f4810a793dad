"""Seeded faults: each breaks one promise in one place, and names the tests that must notice.

A patch must fit exactly once: when code moves on, its mutant is moved along.
"""

from __future__ import annotations

from msgspec import Struct

STEPS, CALLS = "tests/laws/test_steps.py", "tests/laws/test_calls.py"
FAILING = "test_failing_anywhere_leaves_no_trace_or_a_declared_end"
CRASHING = "test_crashing_anywhere_ends_after_the_restart"


class Mutant(Struct, frozen=True):
    """One fault. `file` is below src/mooring; `tests` and `only` are pytest's arguments."""

    name: str
    file: str
    old: str
    new: str
    tests: str
    only: str = ""
    more: str = ""
    """What the new text needs at the end of the file."""

    def __str__(self) -> str:
        return self.name


MUTANTS = [
    Mutant(
        "undos are skipped",
        "saga/teller.py",
        'if mark.heading == "back" and step.undo is None:',
        'if mark.heading == "back":',
        STEPS,
        f"{FAILING} and attach_volume and plug_disk",
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
        '{**values, "of_id": mark.id, "of_epoch": mark.epoch}',
        '{**values, "of_id": mark.id, "of_epoch": _epoch_of(tx, mark.id)}',
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
        "epochs are not compared",
        "fence/rules.py",
        "if epoch > operation.epoch:",
        "if epoch < 0:",
        CALLS,
        "sleeper",
    ),
    Mutant(
        "generations are not compared",
        "fence/rules.py",
        "if generation > operation.generation:",
        "if generation < 0:",
        "tests/fence/test_rules.py",
    ),
    Mutant(
        "there are no tombstones",
        "fence/rules.py",
        "elif records.is_buried(operation.key, resource):",
        "elif not operation.key:",
        CALLS,
        "behind_its_own_undo and attach-late",
    ),
    Mutant(
        "services forget what was buried",
        "fence/table.py",
        "    records.bury(operation_key, resource)\n",
        "",
        CALLS,
        "only_after_its_undo and attach-never",
    ),
    Mutant(
        "an undo knows only what it remembers",
        "compute/volume_calls.py",
        "made = await volumes.session.bury(run.operation)",
        "made: list[str] | None = [remembered] if remembered else []",
        STEPS,
        f"{FAILING} and attach_volume and create_attachment",
    ),
    Mutant(
        "an undo leaves the export",
        "volume/sagas/connect_attachment.py",
        "    if not notes.fresh:\n        return\n",
        "    return\n",
        STEPS,
        f"{FAILING} and connect_attachment",
    ),
    Mutant(
        "a failure keeps the place on its host",
        "compute/sagas/create_server.py",
        "    if not notes.abandoned:\n        await run.service.placement.release",
        "    if notes.abandoned:\n        await run.service.placement.release",
        STEPS,
        f"{FAILING} and create_server and spawn_guest",
    ),
    Mutant(
        "a detach that failed leaves the volume detaching",
        "compute/sagas/detach_volume.py",
        '    operation = guests.other(run.operation, "roll")\n',
        "    return\n",
        STEPS,
        f"{FAILING} and detach_volume",
    ),
    Mutant(
        "hosts that are back pay no debts",
        "compute/loops/watch_hosts.py",
        "        await _pay_debts(compute, agent)\n",
        "",
        "tests/laws/test_dead_host.py",
        "delete or create",
    ),
    Mutant(
        "a power change that failed goes on for ever",
        "compute/sagas/power.py",
        "    states.change(tx, notes.server_id, run.now(), task_state=None, **_seen(tx, notes))\n",
        "",
        STEPS,
        f"{FAILING} and stop_server",
    ),
    Mutant(
        "who gave up waiting for a lock is tried for ever",
        "saga/turn.py",
        "return part.undo is None or part.undo_is_transaction",
        "return part.undo_is_transaction",
        "tests/saga/test_engine.py",
        "too_long",
    ),
    Mutant(
        "a late DELETE acts behind what took it back",
        "fence/rules.py",
        "Answer(status=204))\n    return records.answer(operation.key",
        "Answer(status=500))\n    return records.answer(operation.key",
        "tests/fence/test_rules.py",
    ),
    Mutant(
        "a deletion that gave up waiting leaves the server deleting",
        "compute/sagas/delete_server.py",
        "Step(find_belongings, undo=give_up)",
        "Step(find_belongings)",
        "tests/laws/test_pairs.py",
        "too_long",
    ),
]
