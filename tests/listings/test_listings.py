"""A list costs as many statements with eight things in it as with two."""

from __future__ import annotations

import re
import sqlite3.dbapi2
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cloud import SimulatedCloud
from tests.crowd.case import Ask, fill, fill_body
from tests.crowd.clients import SERVICES, Crowd, with_two_pools
from tests.crowd.routes import routes_of
from tests.listings.things import ROUNDS

pytestmark = pytest.mark.anyio
FEW, MANY = 2, 8
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHnN3p1dH0c6v1S4C0mA0l2m8kq2Yt9sWm7gqkI6kq7y me"
QUERIES = {
    "placement/allocation_candidates": "?resources=VCPU:1",
    "placement/usages": "?project_id={project}",
    "compute/os-simple-tenant-usage": "?detailed=1",
    "share/share-access-rules": "?share_id={share_id0}",
}
REFUSED = {
    "identity/auth/tokens": "shows the token that its header names",
    "image/info/stores": "not built",
    "compute/servers/{server_id}/diagnostics": "not built",
}
"""What is answered with an error: it lists nothing."""
OLD = {
    r"compute.*(networks|floating|security-?groups)": "",
    r"compute.*hypervisors/(statistics|.*/search|.*/servers)": "",
    r"compute.*uptime": "2.53",
    r"share/(os-|.*/os-)": "",
}
"""Routes that the latest microversion does not have, and in which they are asked; "": the first."""


class Statements:
    """Counts the statements of all databases, but for those that begin and end transactions."""

    def __init__(self) -> None:
        self.count = 0

    def connect(self, *given: Any, **how: Any) -> sqlite3.Connection:
        made = _connect(*given, **how)
        made.set_trace_callback(self._note)
        return made

    def _note(self, statement: str) -> None:
        if statement.lstrip().startswith("SELECT"):
            self.count += 1


_connect = sqlite3.dbapi2.connect


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Statements:
    counted = Statements()
    monkeypatch.setattr(sqlite3.dbapi2, "connect", counted.connect)
    return counted


@pytest.fixture
async def cloud(tmp_path: Path, statements: Statements) -> AsyncIterator[SimulatedCloud]:
    assert statements.count == 0
    async with with_two_pools(SimulatedCloud(tmp_path / "state")) as made:
        yield made


def listings() -> list[str]:
    """Return every route that lists, or shows a thing with what it has: service and path."""
    return [
        f"{service}{route.path}"
        for service in SERVICES
        for route in routes_of(service)
        if route.method == "GET" and not route.path.endswith("}")
    ]


async def make(crowd: Crowd, number: int) -> None:
    """Make one more of each thing."""
    for asks in ROUNDS:
        await crowd.cloud.look_at_hosts()
        for ask in asks:
            await send(crowd, ask, number)
        await crowd.cloud.settle()


async def send(crowd: Crowd, ask: Ask, number: int) -> None:
    body, path = fill_body(ask.body, number, crowd.names), fill(ask.path, number, crowd.names)
    answer = await crowd.ask(ask.method, fill(path, number, crowd.names), body)
    assert answer.status < 300, (path, answer.status, answer.text)
    if ask.saves:
        *outer, last = ask.of.split(".")
        found = answer.body
        for key in outer:
            found = found[key]
        crowd.names[ask.saves.replace("#", str(number))] = str(found[last])


async def cost(crowd: Crowd, statements: Statements, listing: str) -> int:
    """Return how many statements a listing takes."""
    service = listing.partition("/")[0]
    root, query = SERVICES[service][0], QUERIES.get(listing, "")
    names = {**crowd.names, **_under(listing, crowd.names)}
    path = re.sub(r"\{(\w+)\}", lambda found: names[f"{found[1]}0"], listing)
    target = root + path.removeprefix(service) + fill(query, 0, crowd.names)
    versions = (version for pattern, version in OLD.items() if re.match(pattern, listing))
    before = statements.count
    answer = await crowd.ask("GET", target, version=next(versions, "latest"))
    is_refused = answer.status >= 300
    assert is_refused == (listing in REFUSED), (target, answer.status, answer.text)
    return statements.count - before


async def costs(crowd: Crowd, statements: Statements) -> dict[str, int]:
    """Return what each listing takes when it is asked for the second time.

    The first time caches are filled, and tokens renewed that have run out meanwhile.
    """
    found: dict[str, int] = {}
    for _ in range(2):
        # Time has passed while operations ended.
        await crowd.cloud.look_at_hosts()
        found = {listing: await cost(crowd, statements, listing) for listing in listings()}
    return found


def _under(listing: str, names: dict[str, str]) -> dict[str, str]:
    """Return what parameters stand for that name something else on other routes."""
    scope = "domain_id0" if listing.startswith("identity/domains") else "project_id0"
    types = {"volume": "t0", "share": "type_id0", "compute": "f0"}.get(listing.partition("/")[0])
    of_share = {"snapshot_id0": names["share_snapshot0"]} if listing.startswith("share/") else {}
    mine = {} if listing.startswith("identity/") else {"project_id0": names["project"]}
    return {
        "scope_id0": names[scope],
        "type_id0": names.get(types or "", ""),
        "flavor_id0": names["f0"],
        "snapshot_id0": names["snap0"],
        "pattern0": "h1",
        "hypervisor_id0": names["hypervisor"],
        "instance_id0": names["share_id0"],
        **of_share,
        **mine,
    }


async def test_no_list_asks_the_database_for_each_thing_in_it(
    cloud: SimulatedCloud, statements: Statements
) -> None:
    crowd = Crowd(cloud, "")
    await crowd.furnish()
    listed = await crowd.ask("GET", "/compute/v2.1/os-hypervisors")
    crowd.names |= {"key": KEY, "hypervisor": listed.key("hypervisors")[0]["id"]}
    for number in range(FEW):
        await make(crowd, number)
    few = await costs(crowd, statements)
    for number in range(FEW, MANY):
        await make(crowd, number)
    many = await costs(crowd, statements)
    most = (MANY - FEW) // 2
    grown = {one: (few[one], many[one]) for one in many if many[one] - few[one] >= most}
    assert grown == {}
