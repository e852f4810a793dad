"""Every limit has its reason, is used, and stands in the documentation."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from mooring.fence import file
from mooring.store.migrate import COMMON
from tests.tidy import tree
from tests.tidy.test_bounds import BOUNDS

LIMITS = (
    "src/mooring/limits.py",
    "src/mooring/http_limits.py",
    "src/mooring/row_limits.py",
    "src/mooring/store/limits.py",
    "src/mooring/fence/limits.py",
    "src/mooring/volume/backups/limits.py",
    "src/mooring/agent/limits.py",
)
HEADING = """\
# Limits

Nothing in Mooring grows without bound. What may be set is in [configuration](configuration.md);
these stand in `src/mooring/limits.py`, and of the HTTP server, of rows, of what is kept of the
past, of fences, of backups, and of agents alone in a file of their own, from which `make golden`
writes this page.

| limit | value | why |
|---|---|---|
"""
TABLES = f"""
## Tables

How many rows each table may have, those of `{COMMON}` in every database. What goes by age or number
is taken away every ten minutes, a few rows at a time, and may be killed over it.

| database | table | its rows |
|---|---|---|
"""


def limits() -> Iterator[tuple[str, str, str]]:
    """Each constant: its name, its value as written, and its docstring, empty when it has none."""
    body = [node for path in LIMITS for node in tree.parsed(path).body]
    for node, following in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        reason = ""
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            reason = " ".join(str(following.value.value).split())
        yield ast.unparse(target), ast.unparse(node.value), reason


def test_every_limit_has_its_reason() -> None:
    assert [name for name, _, reason in limits() if not reason] == []


def test_every_limit_is_used() -> None:
    texts = (tree.text(path) for path in tree.python("src/") if path not in LIMITS)
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    assert [name for name, _, _ in limits() if name not in words] == []


def test_the_documentation_lists_every_limit(golden: Callable[[str, str], None]) -> None:
    rows = [f"| `{name}` | `{value}` | {reason} |\n" for name, value, reason in limits()]
    golden("docs/limits.md", HEADING + "".join(rows) + TABLES + "".join(_tables()))


def _tables() -> Iterator[str]:
    for chain, bounds in BOUNDS.items():
        for bound in bounds:
            yield f"| {chain} | `{bound.table}` | {bound.why} |\n"
    for name, why in file.BOUNDS.items():
        yield f"| an agent's journal | `{name}` | {why} |\n"
