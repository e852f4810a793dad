"""A route reads a request, calls a rule and answers: fifteen lines do that."""

from __future__ import annotations

import ast

from tests.tidy import tree

ROUTE_LINES = 15
LONGER = {
    "src/mooring/compute/servers/api/servers.py": {"create_server", "update_server"},
    "src/mooring/image/api/data.py": {"download"},
    "src/mooring/image/api/images.py": {"create_image"},
    "src/mooring/placement/api/providers.py": {"list_providers"},
    "src/mooring/placement/api/reshaper.py": {"reshape"},
}
"""Routes from before the rule. The list only shrinks."""


def is_route(function: tree.Function) -> bool:
    calls = (each for each in function.decorator_list if isinstance(each, ast.Call))
    return any(ast.unparse(call.func).startswith("api.") for call in calls)


def lines_of(function: tree.Function) -> int:
    """The lines of a function from its `def` on, without its docstring."""
    first = function.body[0]
    described = 0
    if ast.get_docstring(function, clean=False) is not None:
        described = (first.end_lineno or first.lineno) - first.lineno + 1
    return (function.end_lineno or function.lineno) - function.lineno + 1 - described


def test_a_route_has_fifteen_lines_at_most() -> None:
    found: dict[str, set[str]] = {}
    for path in tree.python(tree.PACKAGE):
        if "/api/" not in path:
            continue
        for function in tree.functions(path):
            if is_route(function) and lines_of(function) > ROUTE_LINES:
                found.setdefault(path, set()).add(function.name)
    assert found == LONGER
