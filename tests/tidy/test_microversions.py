"""Rules know no microversions: routes say what a request may do, and rules are told that."""

from __future__ import annotations

import ast

from tests.tidy import tree
from tests.tidy.test_source import violations

AT_THE_WIRE = ("/api/", "/wire/")
READS_REQUESTS = {"src/mooring/placement/query.py"}
"""Has no rules: it reads what stands behind a URL's question mark."""
OF_OTHERS = {"ATTACHMENTS_SINCE"}
"""Which version another service has to have."""


def is_of_versions(node: ast.AST) -> bool:
    """Whether this is the type of a microversion, one by its name, or what takes one."""
    match node:
        case ast.Name(id=name):
            return name == "Version" or (name.endswith("_SINCE") and name not in OF_OTHERS)
        case ast.arg(arg="version", annotation=ast.expr() as kind):
            return ast.unparse(kind) == "tuple[int, int]"
        case _:
            return False


def test_rules_know_no_microversions() -> None:
    found = [
        f"{path}:{getattr(node, 'lineno', 0)}: {ast.unparse(node)}"
        for path in tree.python(*(f"{tree.PACKAGE}{service}/" for service in tree.SERVICES))
        if not any(folder in path for folder in AT_THE_WIRE) and path not in READS_REQUESTS
        for node in tree.nodes(path)
        if is_of_versions(node)
    ]
    assert not found, violations(found)
