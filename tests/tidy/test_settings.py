"""No setting is offered that nothing reads."""

from __future__ import annotations

import ast

import msgspec

from mooring.config import Settings
from tests.tidy import tree


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
