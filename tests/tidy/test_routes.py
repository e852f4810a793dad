"""A route reads a request, calls a rule and answers: fifteen lines do that."""

from __future__ import annotations

import ast

from tests.tidy import tree

ROUTE_LINES = 15
LONGER = {
    "src/mooring/compute/actions/api/instance_actions.py": {"list_actions", "show_action"},
    "src/mooring/compute/hosts/api/services.py": {"change_service", "change_service_by_name"},
    "src/mooring/compute/quotas/api/limits.py": {"show_limits"},
    "src/mooring/compute/rebuild/api/server_rebuild.py": {"rebuild_server"},
    "src/mooring/compute/servers/api/server_actions.py": {"read_console"},
    "src/mooring/compute/servers/api/servers.py": {"create_server", "update_server"},
    "src/mooring/image/api/data.py": {"download"},
    "src/mooring/image/api/images.py": {"create_image"},
    "src/mooring/image/api/members.py": {"set_member_status"},
    "src/mooring/placement/api/allocations.py": {"show_allocations"},
    "src/mooring/placement/api/providers.py": {"list_providers", "list_allocations"},
    "src/mooring/placement/api/reshaper.py": {"reshape"},
    "src/mooring/placement/api/usages.py": {"show_usages"},
    "src/mooring/volume/volumes/api/volume_actions.py": {"reset_status"},
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
