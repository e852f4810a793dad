"""What a step writes beside its bookmark, no epoch guards: it looks itself whether it is late."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import PurePath

from tests.tidy import tree

LOOKS = {"require_lease", "as_of_now"}
"""What raises Conflict in a process that slept and was succeeded (`mooring.saga.ownership`)."""

EXCUSED = {
    "compute/moves/sagas/preparing.py: await_turn": "it changes its own record, by its status",
    "compute/moves/sagas/sending.py: _note": "it is only shown, of its own record",
    "compute/volumes/sagas/extend_volume.py: answer_failure": "what it starts has an id of its own "
    "saga's, so it is started once, and grows what is still to grow",
    "volume/migration/resetting.py: settle": "a copy is of one move, and closed for good",
    "volume/migration/sagas/in_use_steps.py: settle_swap": "a copy is of one move, likewise",
}
"""Functions whose writes do no harm however late they come, and why."""

Known = set[tuple[str, str]]
"""Functions, each by the name of its module and its own."""


def named(path: str, node: ast.AST) -> Iterator[tuple[str, str]]:
    """Every function that is named below a node, as far as its module can be told."""
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            yield PurePath(path).stem, one.id
        elif isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name):
            yield one.value.id, one.attr


def looking() -> Known:
    """The functions that look whether they are late, themselves or by others."""
    every = [
        (PurePath(path).stem, function.name, set(named(path, function)))
        for path in tree.python(tree.PACKAGE)
        for function in tree.functions(path)
    ]
    found: Known = {(module, name) for module, name, what in every if LOOKS & {n for _, n in what}}
    before = 0
    while before < len(found):
        before = len(found)
        found |= {(module, name) for module, name, what in every if found & what}
    return found


def is_step(function: tree.Function) -> bool:
    """Whether a function is one that a step calls, with its run."""
    arguments = [*function.args.args, *function.args.kwonlyargs]
    return any(one.annotation and "Run[" in ast.unparse(one.annotation) for one in arguments)


def test_what_steps_write_beside_their_bookmark_looks_whether_they_are_late() -> None:
    known, late = looking(), set[str]()
    for path in tree.python(tree.PACKAGE):
        for function in filter(is_step, tree.functions(path)):
            for call in ast.walk(function):
                if not (isinstance(call, ast.Call) and call.args):
                    continue
                looks = known & set(named(path, call.args[0]))
                own = LOOKS & {name for _, name in named(path, call.args[0])}
                if ast.unparse(call.func).endswith("store.write") and not (looks or own):
                    late.add(f"{path.removeprefix(tree.PACKAGE)}: {function.name}")
    assert late == set(EXCUSED)
