"""No setting is offered that nothing reads, or that no test writes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import msgspec

from mooring.agent.settings import (
    GuestShareSettings,
    MountSettings,
    PoolSettings,
    SharePoolSettings,
)
from mooring.config import Settings
from tests.tidy import tree

KINDS = (Settings, GuestShareSettings, MountSettings, PoolSettings, SharePoolSettings)
"""What operators write: the settings, and what the file of a host's storage has."""


def test_every_setting_is_read_by_the_source() -> None:
    read = {
        node.attr
        for path in tree.python("src/")
        for node in ast.walk(tree.parsed(path))
        if isinstance(node, ast.Attribute)
        if path != "src/mooring/config.py" or ast.unparse(node.value) == "self"
    }
    offered = {field.name for field in msgspec.structs.fields(Settings)}
    assert offered - read == set()


def test_every_setting_is_written_by_a_test() -> None:
    """What nobody sets in a test may be read and reach nothing."""
    offered = {field.name for kind in KINDS for field in msgspec.structs.fields(kind)}
    assert offered - set(_written(offered)) == set()


def _written(names: set[str]) -> Iterator[str]:
    """Give each name that a test gives a value: in a call, a table, a file, a variable, an option.

    Tests of how settings are read give values to all of them.
    """
    spelt = {name: name for name in names}
    spelt |= {f"MOORING_{name.upper()}": name for name in names}
    spelt |= {f"--{name.replace('_', '-')}": name for name in names}
    for path in tree.python("tests/"):
        if path.startswith(("tests/tidy/", "tests/mutants/")) or path == "tests/test_config.py":
            continue
        for node in tree.nodes(path):
            if isinstance(node, ast.keyword) and node.arg in names:
                yield node.arg
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found = [node.value, *re.findall(r"^(\w+) = ", node.value, re.MULTILINE)]
                yield from (spelt[word] for word in found if word in spelt)
