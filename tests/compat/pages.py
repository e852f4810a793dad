"""The pages of `docs/compat/`: each route of each service, and which tests ask for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from mooring.services import SERVICES
from mooring.web.api import Route, Version
from mooring.web.face import Face
from tests.compat import evidence
from tests.compat.evidence import UNKNOWN, Asked

MADE = "Made from the routes and the tests by `make golden`."
INDEX = f"""\
# Compatibility

{MADE}
One page a service: every call, the microversions in which it exists, the policy rule that guards
it, and the test files in whose source a request for it was found. Calls that are marked *refused*
are known to clients and not built here: they say so, and change nothing. Others are answered 404.

[Commands and SDK calls](clients.md) lists what the stock `openstack` command and openstacksdk were
seen to do. [Notifications](notifications.md) lists what is sent to those who are to be told of what
happens.

| service | path | versions | calls | refused |
|---|---|---|---|---|
"""
HEADING = """\
| call | versions | policy | test files |
|---|---|---|---|
"""


class Service(Struct, frozen=True):
    """A service's routes, and how it is found in tests: by their folder, or by its prefix."""

    name: str
    face: Face
    routes: list[Route]

    @property
    def prefix(self) -> str:
        return f"/{self.name}" + (f"/{self.face.segment}" if self.face.segment else "")

    @property
    def range(self) -> str:
        if not self.face.has_versions:
            return self.face.segment
        return f"{_dotted(self.face.minimum)} to {_dotted(self.face.maximum)}"


def services() -> list[Service]:
    """Every service, with the routes that its application serves."""
    return [
        Service(each.name, each.face, [route for api in each.apis for route in api.routes])
        for each in SERVICES
    ]


def pages() -> Iterator[tuple[str, str]]:
    """Yield the name and text of every page."""
    index = [INDEX]
    for service in services():
        proofs = _proofs(service)
        rows = [_row(route, proofs.get(_key(route), ())) for route in _sorted(service.routes)]
        refused = {_key(route) for route in service.routes if _is_refused(route)}
        built = {_key(route) for route in service.routes} - refused
        index.append(
            f"| [{service.name}]({service.name}.md) | `{service.prefix}` | {service.range} |"
            f" {len(built)} | {len(refused)} |\n"
        )
        title = f"# {service.name.capitalize()}, {service.range}\n\n{MADE}\n\n"
        yield f"{service.name}.md", title + HEADING + "".join(rows)
    yield "README.md", "".join(index)


def _sorted(routes: Iterable[Route]) -> list[Route]:
    return sorted(routes, key=lambda one: (one.path, one.method, one.action, one.since or (0, 0)))


def _row(route: Route, files: Iterable[str]) -> str:
    call = f"{route.method} {route.path}" + (f" {route.action}" if route.action else "")
    rule = f"`{route.policy}`" if route.policy else "open" if route.open else "in the handler"
    mark = "*refused* " if _is_refused(route) else ""
    return f"| {mark}`{call}` | {_versions(route)} | {rule} | {', '.join(sorted(files))} |\n"


def _is_refused(route: Route) -> bool:
    """Tell whether a handler is there to refuse: its name or its description says so."""
    told = route.handler.__doc__ or ""
    return (
        route.handler.__name__.startswith("refuse")
        or told.startswith("Say that")
        or "not built" in told
    )


def _versions(route: Route) -> str:
    if route.since and route.until:
        return f"{_dotted(route.since)} to {_dotted(route.until)}"
    if route.until:
        return f"up to {_dotted(route.until)}"
    return f"from {_dotted(route.since)}" if route.since else "all"


def _dotted(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def _key(route: Route) -> tuple[str, str, str]:
    return route.method, route.path, route.action


def _proofs(service: Service) -> Mapping[tuple[str, str, str], set[str]]:
    """Return, by route, the test files that ask for it."""
    own = f"tests/{service.name}/"
    found: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
    for asked in evidence.requests(own, "tests/contract/", "tests/kill/", "tests/hosts/"):
        path = asked.path.removeprefix(service.prefix)
        if path == asked.path and not asked.file.startswith(own):
            continue
        for route in _meant(service.routes, asked, path):
            found[_key(route)].add(short(asked.file))
    return found


def short(file: str) -> str:
    """Return the name of a test file as the pages show it."""
    return file.removeprefix("tests/").removesuffix(".py")


def _meant(routes: Iterable[Route], asked: Asked, path: str) -> list[Route]:
    parts = path.strip("/").split("/")
    fits = [
        (sum(not _is_named(part) for part in route.path.split("/")), route)
        for route in routes
        if route.method == asked.method
        and _fits(route.path.strip("/").split("/"), parts)
        and (not route.action or route.action in asked.keys)
    ]
    most = max((fixed for fixed, _ in fits), default=0)
    return [route for fixed, route in fits if fixed == most]


def _fits(pattern: list[str], parts: list[str]) -> bool:
    return len(pattern) == len(parts) and all(
        (_is_named(wanted) and part != "") or wanted == part
        for wanted, part in zip(pattern, parts, strict=True)
    )


def _is_named(part: str) -> bool:
    return part.startswith("{") and part != UNKNOWN
