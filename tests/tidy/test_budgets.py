"""How long a saga, and what belongs to one, may be, in lines that say something."""

from __future__ import annotations

import ast
import io
import tokenize

from tests.tidy import tree
from tests.tidy.test_source import violations

SAGA_LINES = 120

_SILENT = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
)


def sagas() -> dict[str, int]:
    """Every module below a folder of sagas, also one of steps or notes alone, with its lines."""
    return {path: lines_of_code(path) for path in tree.python("src/") if "/sagas/" in path}


def lines_of_code(path: str) -> int:
    """The lines of a file that say something: no imports, docstrings, comments or blank lines."""
    left_out: set[int] = set()
    for node in ast.walk(tree.parsed(path)):
        if isinstance(node, ast.Import | ast.ImportFrom) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        ):
            left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    said: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(tree.text(path)).readline):
        if token.type not in _SILENT and token.string:
            said.update(range(token.start[0], token.end[0] + 1))
    return len(said - left_out)


def test_a_saga_is_read_at_one_sitting() -> None:
    found = sagas()
    assert len(found) > 100
    longer = [f"{name} has {lines} lines" for name, lines in found.items() if lines > SAGA_LINES]
    assert not longer, violations(longer)
