"""The contract for the inside of a service finds what goes upwards, wherever a feature stands."""

from __future__ import annotations

import tomllib

import pytest
from grimp import ImportGraph

from mooring.services import SERVICES
from scripts.inside_service import kind_of, violations
from tests.tidy import tree

MODULES = (
    "mooring.port.app",
    "mooring.port.tables",
    "mooring.port.boats.api.boats",
    "mooring.port.boats.loops.watch",
    "mooring.port.boats.boats",
    "mooring.port.boats.sagas.launch",
    "mooring.port.boats.ropes",
)
GOOD = (
    ("app", "boats.api.boats"),
    ("app", "boats.loops.watch"),
    ("boats.api.boats", "boats.boats"),
    ("boats.loops.watch", "boats.boats"),
    ("boats.boats", "boats.sagas.launch"),
    ("boats.sagas.launch", "boats.ropes"),
    ("boats.ropes", "tables"),
)


def port(*more: tuple[str, str]) -> ImportGraph:
    graph = ImportGraph()
    for module in ("mooring", "mooring.port", "mooring.port.boats", *MODULES):
        graph.add_module(module)
    for importer, imported in (*GOOD, *more):
        graph.add_import(importer=f"mooring.port.{importer}", imported=f"mooring.port.{imported}")
    return graph


def test_what_goes_downwards_is_kept() -> None:
    assert not list(violations(port(), "mooring.port"))


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("boats.boats", "boats.api.boats"),
        ("boats.sagas.launch", "boats.boats"),
        ("boats.sagas.launch", "boats.loops.watch"),
        ("tables", "boats.ropes"),
        ("boats.api.boats", "boats.loops.watch"),
        ("boats.api.boats", "app"),
    ],
)
def test_what_goes_upwards_is_found(importer: str, imported: str) -> None:
    (found,) = violations(port((importer, imported)), "mooring.port")
    assert f"mooring.port.{importer} " in found
    assert f"mooring.port.{imported} " in found


def test_a_module_is_a_rule_once_it_reaches_a_saga() -> None:
    ropes = "mooring.port.boats.ropes"
    assert kind_of(ropes, "mooring.port", port()) == "row"
    graph = port(("boats.ropes", "boats.sagas.launch"))
    assert kind_of(ropes, "mooring.port", graph) == "rule"


def test_the_contract_holds_every_service() -> None:
    settings = tomllib.loads(tree.text("pyproject.toml"))["tool"]["importlinter"]
    (held,) = (each for each in settings["contracts"] if each["type"] == "inside_service")
    assert set(held["services"]) == {f"mooring.{each.name}" for each in SERVICES}
