"""What tests ask for, read from their source: requests, stock commands and calls of the SDK.

A request is a call or a row of a table with a method and a path side by side. Constants are
followed by their names; whatever else stands in a path matches one of its named segments.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from tests.tidy.tree import parsed, python

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
UNKNOWN = "{}"
_ACTION = "/compute/v2.1/servers/{}/action"


class Asked(Struct, frozen=True):
    """One request in a test file. `keys` are those of the file's bodies: they name actions."""

    file: str
    method: str
    path: str
    keys: frozenset[str]


@functools.cache
def _constants() -> dict[str, str]:
    """Strings that test modules share, by name."""
    shared = (
        parsed("tests/contract/clients.py").body + parsed("tests/contract/bad_requests.py").body
    )
    return _assigned(shared, {})


def _assigned(statements: Sequence[ast.stmt], known: Mapping[str, str]) -> dict[str, str]:
    found = dict(known)
    for statement in statements:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        names = _each(statement.targets[0])
        for name, value in zip(names, _each(statement.value), strict=False):
            content = _string(value, found)
            if isinstance(name, ast.Name) and content is not None:
                found[name.id] = content
    return found


def _each(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _string(node: ast.AST, known: Mapping[str, str]) -> str | None:
    """Return what a string expression says, with `{}` for each part that only a run tells."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.FormattedValue):
        return _string(node.value, known) or UNKNOWN
    if isinstance(node, ast.JoinedStr):
        return "".join(_string(part, known) or "" for part in node.values)
    return None


def requests(*folders: str) -> Iterator[Asked]:
    """Yield every request that the tests in some folders make."""
    for file in python(*folders):
        module = parsed(file)
        known = _assigned(module.body, _constants())
        for part in module.body:
            local = known
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                assigns = [node for node in ast.walk(part) if isinstance(node, ast.Assign)]
                local = _assigned(assigns, known)
            for node in ast.walk(part):
                yield from _asked(node, file, local)
                yield from _acted(node, file)


def _asked(node: ast.AST, file: str, known: Mapping[str, str]) -> Iterator[Asked]:
    if isinstance(node, ast.Call):
        items = node.args
        if isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            items = [ast.Constant("GET"), *items]
    elif isinstance(node, ast.Tuple):
        items = node.elts
    else:
        return
    for first, second in pairwise(items):
        method, path = _string(first, known), _string(second, known)
        if method in METHODS and path is not None and path.startswith("/"):
            yield Asked(file, method, path.partition("?")[0], _keys(file))


def _acted(node: ast.AST, file: str) -> Iterator[Asked]:
    """Yield an action of a server that helpers are told by name: `act(..., "shelve")`."""
    if not isinstance(node, ast.Call):
        return
    called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    called = node.func.id if isinstance(node.func, ast.Name) else called
    words = [_string(argument, {}) or "" for argument in node.args[:2]]
    if called in {"act", "ask"} and not {*METHODS} & {*words}:
        keys = frozenset(word for word in words if word.isidentifier() or "-" in word)
        if keys:
            yield Asked(file, "POST", _ACTION, keys)


@functools.cache
def _keys(file: str) -> frozenset[str]:
    dicts = [node for node in ast.walk(parsed(file)) if isinstance(node, ast.Dict)]
    keys = [key for node in dicts for key in node.keys if isinstance(key, ast.Constant)]
    return frozenset(str(key.value) for key in keys)


def commands(file: str) -> Iterator[tuple[list[str], frozenset[str]]]:
    """Yield the words of each stock command of a test file, and all words of that test.

    A word that only a run tells is `{}`; options may stand elsewhere in the test.
    """
    for part in parsed(file).body:
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            nodes = list(ast.walk(part))
            everything = frozenset(word for node in nodes if (word := _string(node, {})))
            for node in nodes:
                for words in _run(node):
                    yield [_string(word, {}) or UNKNOWN for word in words], everything


def _run(node: ast.AST) -> list[list[ast.expr]]:
    """Return the words of the commands that a call runs: `ask(*words)` or `ask_each(*commands)`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return []
    if node.func.attr in {"run", "ask", "execute"}:
        return [node.args]
    if node.func.attr == "ask_each":
        return [each.elts for each in ast.walk(node) if isinstance(each, ast.Tuple)]
    return []


def sdk_calls(file: str) -> Iterator[str]:
    """Yield each call of an SDK proxy in a test file, as `compute.create_server`."""
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            connection = node.value.value
            if isinstance(connection, ast.Name) and connection.id in {"sdk", "connection"}:
                yield f"{node.value.attr}.{node.attr}"
