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
        hangs=True,
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
        "tests/fence/test_rules.py",
        "undone_call_is_gone",
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
    Mutant(
        "an answer is forgotten",
        "fence/rules.py",
        "    if answer.status < 400:\n        records.keep",
        "    if answer.status < 0:\n        records.keep",
        "tests/fence/test_rules.py",
        "test_a_first_call_acts_and_the_same_call_gets_its_answer",
    ),
    Mutant(
        "a refusal is kept for good",
        "fence/rules.py",
        "    if answer.status < 400:\n        records.keep",
        "    if answer.status:\n        records.keep",
        "tests/fence/test_rules.py",
        "test_a_failed_answer_is_not_given_again",
    ),
    Mutant(
        "what was undone meanwhile is answered",
        "fence/rules.py",
        '    if verb != "DELETE" and records.is_buried(operation.key, resource):\n        raise',
        '    if verb == "NONE" and records.is_buried(operation.key, resource):\n        raise',
        "tests/fence/test_rules.py",
        "test_a_call_that_was_undone_while_it_ran_leaves_no_answer",
    ),
    Mutant(
        "one tombstone for all",
        "fence/rules.py",
        "        records.bury(operation.key, resource)",
        '        records.bury(operation.key, "")',
        "tests/fence/test_rules.py",
        "test_a_tombstone_bars_only_its_own_operation_and_resource",
    ),
    Mutant(
        "shared resources are fenced by generation",
        "fence/rules.py",
        "if operation.generation and not shared:",
        "if operation.generation:",
        "tests/fence/test_rules.py",
        "test_generations_of_a_shared_resource_are_not_compared",
    ),
    Mutant(
        "what a DELETE ends besides is not fenced",
        "fence/rules.py",
        "for taken in filter(None, (resource, also)):",
        "for taken in filter(None, (resource,)):",
        "tests/agent/test_fence.py",
        "test_what_a_detach_disconnected_is_not_connected_again_by_a_late_call",
    ),
    Mutant(
        "a DELETE leaves what runs for what it ends besides",
        "fence/journal.py",
        "ended = later.resource, later.also",
        "ended = (later.resource,)",
        "tests/fence/test_late_calls.py",
        "test_a_delete_ends_what_it_names_besides",
        hangs=True,
    ),
]
