"""A contract of import-linter for the inside of a service, which knows modules by their place.

From the top: the declaration (`app`); routes (`api`) and loops (`loops`); rules, which start sagas;
`sagas`; what those work with, and what the service owns (`service`); then `policy` and `tables`.
Each imports what stands beside or below it. A module beside `api` and `sagas` is a rule as soon as
it reaches a saga, so no list has to be kept, and no new module is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

LAYERS = (
    ("app",),
    ("api", "loops"),
    ("rule",),
    ("sagas",),
    ("row", "service"),
    ("policy", "tables"),
)
_HEIGHTS = {name: len(LAYERS) - at for at, layer in enumerate(LAYERS) for name in layer}


def kind_of(module: str, service: str, graph: ImportGraph) -> str:
    """Return the member of LAYERS that a module of a service is."""
    parts = module.removeprefix(f"{service}.").split(".")
    for name in ("api", "loops", "sagas"):
        if name in parts:
            return name
    if parts[0] in ("app", "service", "policy", "tables"):
        return parts[0]
    reached = graph.find_upstream_modules(module)
    return "rule" if any(_is_saga(other, service) for other in reached) else "row"


def violations(graph: ImportGraph, service: str) -> Iterator[str]:
    """Yield each import of a service that goes upwards, or from routes to loops or back."""
    modules = {
        module: kind_of(module, service, graph)
        for module in sorted(graph.modules)
        if module.startswith(f"{service}.") and not graph.find_children(module)
    }
    for importer, imported in product(modules, modules):
        if not graph.direct_import_exists(importer=importer, imported=imported):
            continue
        above, below = modules[importer], modules[imported]
        is_crossing = {above, below} == {"api", "loops"}
        if _HEIGHTS[above] < _HEIGHTS[below] or is_crossing:
            yield f"{importer} ({above}) imports {imported} ({below})"


def _is_saga(module: str, service: str) -> bool:
    return module.startswith(f"{service}.") and "sagas" in module.split(".")


class InsideService(Contract):
    """Holds the layers inside each of `services`."""

    services = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: FBT001  (its base's)
        names: list[str] = list(self.contract_options["services"])
        found = [line for service in names for line in violations(graph, service)]
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for line in check.metadata["found"]:
            output.print_error(line)
