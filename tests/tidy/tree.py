"""The files of the checkout, as the rules of the house read them."""

from __future__ import annotations

import ast
import functools
import subprocess
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
PACKAGE = "src/mooring/"
MIGRATIONS = "src/mooring/store/migrations/"
"""What Alembic has written: one long function a file, and lines of any length."""
SERVICES = ("identity", "image", "placement", "volume", "share", "compute")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@functools.cache
def files() -> tuple[str, ...]:
    """Every file that is in the repository or could be added to it, by its path in the checkout."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=CHECKOUT,
        check=True,
        capture_output=True,
        text=True,
    )
    found = set(listed.stdout.split("\0")) - {""}
    return tuple(sorted(path for path in found if (CHECKOUT / path).is_file()))


@functools.cache
def text(path: str) -> str:
    """The text of a file; empty when it is none."""
    try:
        return (CHECKOUT / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def python(*prefixes: str) -> list[str]:
    """The Python files below some folders; all when none is named."""
    return [path for path in files() if path.endswith(".py") and path.startswith(prefixes or "")]


def code() -> list[str]:
    """Python and shell, with the scripts that have no suffix."""
    return [
        path
        for path in files()
        if path.endswith((".py", ".sh")) or text(path).startswith("#!") or path == "Makefile"
    ]


@functools.cache
def parsed(path: str) -> ast.Module:
    """The syntax tree of a Python file."""
    return ast.parse(text(path), path)


@functools.cache
def nodes(path: str) -> tuple[ast.AST, ...]:
    """Every node of a Python file's syntax tree."""
    return tuple(ast.walk(parsed(path)))


def functions(path: str) -> Iterator[Function]:
    """Every function of a file, methods and inner ones too."""
    for node in nodes(path):
        if isinstance(node, Function):
            yield node


@functools.cache
def imports(path: str) -> tuple[tuple[str, int], ...]:
    """Every module that a file imports, wherever in the file, with its line."""
    return tuple(_imports(path))


def _imports(path: str) -> Iterator[tuple[str, int]]:
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from ((name.name, node.lineno) for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module, node.lineno
            yield from ((f"{node.module}.{name.name}", node.lineno) for name in node.names)


@functools.cache
def calls(path: str) -> tuple[tuple[str, ast.Call], ...]:
    """Every call in a file, under the dotted name it is written with."""
    return tuple(
        (ast.unparse(node.func), node) for node in nodes(path) if isinstance(node, ast.Call)
    )
