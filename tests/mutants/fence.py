"""Faults seeded in the fence: who may still act."""

from __future__ import annotations

from tests.mutants.mutant import CALLS, Mutant

MUTANTS = [
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
        "a late DELETE acts behind what took it back",
        "fence/rules.py",
        "Answer(status=204))\n    return records.answer(operation.key",
        "Answer(status=500))\n    return records.answer(operation.key",
        "tests/fence/test_rules.py",
    ),
]
