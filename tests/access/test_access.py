"""Every route as every persona: `docs/access/` says who is let in, and is reviewed like code.

The requests go through the whole cloud. What reads is asked about things of the project `demo`;
what writes is asked about things that are not there, with an empty body: who is let in is told 400
or 404.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.web.api import Route
from tests.cloud import SimulatedCloud
from tests.crowd.clients import SERVICES
from tests.crowd.routes import routes_of

pytestmark = pytest.mark.anyio
PEOPLE = {
    "reader": ("demo", "reader"),
    "member": ("demo", "member"),
    "manager": ("demo", "manager"),
    "stranger": ("elsewhere", "manager"),
    "admin": ("demo", "admin"),
    "service": ("service", "service"),
    "domain": ("", "manager"),
}
"""In which project each has which role; without one, in the domain, for which its token is then. A
service that shows its own token alone has no other role here."""
PERSONAS = ("nobody", *PEOPLE)
NOWHERE = "00000000-0000-4000-8000-000000000000"
_NAMED = re.compile(r"\{(\w+)\}")
_DOMAIN = {"id": "default"}
_PASSWORD = "as long as it is secret"
_HEADING = """\
# Who may do what: {service}

Made by `make golden` from the routes, asked through a whole cloud as each persona; look at what
changes here as at code. `reader`, `member`, `manager` and `admin` have that role on the project
`demo`, whose things are asked for; `stranger` is a manager of another project, `service` has
nothing but the role `service`, `domain` is a manager of their domain, with a token for that and for
no project, `nobody` shows no token.

- `yes`: let in. Of what writes nothing more is asked than the gate: what it names is not there.
- 401, 403: refused. 404, of what reads: it is not there for this one.
- `thing`: the rule is asked for the very thing, once that is found: tests of the service hold it.

| route | {personas} |
|---|{lines}|
"""


class Town:
    """A cloud, somebody of each persona, and something of each kind in the project demo."""

    def __init__(self, cloud: SimulatedCloud) -> None:
        self.cloud = cloud
        self.tokens: dict[str, str] = {}
        self.homes: dict[str, str] = {}
        self.known: dict[str, str] = {"domain_id": "default", "key": "k", "tag": "t"}

    async def admin(self, method: str, path: str, body: Any = None, **how: Any) -> Any:
        answer = await self.cloud.ask(method, path, body, user="admin", **how)
        assert answer.status < 300, answer
        return answer.body

    async def settle_down(self) -> None:
        found = await self.admin("GET", "/identity/v3/projects?name=demo")
        service = await self.admin("GET", "/identity/v3/projects?name=service")
        other = {"project": {"name": "elsewhere"}}
        places = {
            "demo": found["projects"][0]["id"],
            "service": service["projects"][0]["id"],
            "elsewhere": (await self.admin("POST", "/identity/v3/projects", other))["project"][
                "id"
            ],
        }
        roles = (await self.admin("GET", "/identity/v3/roles"))["roles"]
        by_name = {role["name"]: role["id"] for role in roles}
        for name, (project, role) in PEOPLE.items():
            user = {"name": f"the-{name}", "password": _PASSWORD}
            made = await self.admin("POST", "/identity/v3/users", {"user": user})
            user_id = made["user"]["id"]
            home = f"projects/{places[project]}" if project else f"domains/{_DOMAIN['id']}"
            path = f"/identity/v3/{home}/users/{user_id}/roles/{by_name[role]}"
            await self.admin("PUT", path)
            self.homes[name] = places.get(project, "")
            self.tokens[name] = await self.log_in(f"the-{name}", self.homes[name])
            self.known |= {"user_id": user_id} if name == "member" else {}
        self.known |= {"project_id": places["demo"], "role_id": by_name["member"]}
        self.known |= {"scope_id": places["demo"]}
        await self.limit()
        await self.furnish()

    async def log_in(self, name: str, project_id: str) -> str:
        user = {"name": name, "domain": _DOMAIN, "password": _PASSWORD}
        proof = {"methods": ["password"], "password": {"user": user}}
        scope = {"project": {"id": project_id}} if project_id else {"domain": _DOMAIN}
        body = {"auth": {"identity": proof, "scope": scope}}
        answer = await self.cloud.ask("POST", "/identity/v3/auth/tokens", body)
        return answer.headers["x-subject-token"]

    async def member(self, method: str, path: str, body: Any, version: str = "") -> Any:
        how: dict[str, Any] = {"headers": {"x-auth-token": self.tokens["member"]}}
        answer = await self.cloud.ask(method, path, body, version=version or None, **how)
        assert answer.status < 300, answer
        return answer.body

    async def limit(self) -> None:
        """Register a limit of what nobody counts, and give the project one of its own."""
        services = await self.admin("GET", "/identity/v3/services?type=compute")
        one = {"service_id": services["services"][0]["id"], "resource_name": "widgets"}
        body = {"registered_limits": [{**one, "default_limit": 10}]}
        made = await self.admin("POST", "/identity/v3/registered_limits", body)
        self.known["registered_limit_id"] = made["registered_limits"][0]["id"]
        own = {**one, "project_id": self.known["project_id"], "resource_limit": 3}
        made = await self.admin("POST", "/identity/v3/limits", {"limits": [own]})
        self.known["limit_id"] = made["limits"][0]["id"]

    async def furnish(self) -> None:
        """Make a volume, a snapshot, an image, a server and a share of the member's."""
        volume = await self.member("POST", "/volume/v3/volumes", {"volume": {"size": 1}})
        self.known["volume_id"] = volume["volume"]["id"]
        await self.cloud.settle()
        wanted = {"snapshot": {"volume_id": self.known["volume_id"]}}
        made = await self.member("POST", "/volume/v3/snapshots", wanted)
        self.known["snapshot_id"] = made["snapshot"]["id"]
        image = {"name": "i", "disk_format": "raw", "container_format": "bare"}
        self.known["image_id"] = (await self.member("POST", "/image/v2/images", image))["id"]
        root = {"uuid": self.known["volume_id"], "source_type": "volume", "boot_index": 0}
        device = {**root, "destination_type": "volume"}
        server = {"name": "s", "flavorRef": "1", "networks": "none"}
        body = {"server": {**server, "block_device_mapping_v2": [device]}}
        await self.cloud.settle()
        volume_path = f"/volume/v3/volumes/{self.known['volume_id']}/action"
        await self.member("POST", volume_path, {"os-set_bootable": {"bootable": True}})
        made = await self.member("POST", "/compute/v2.1/servers", body, "2.79")
        self.known["server_id"] = made["server"]["id"]
        share = {"share": {"share_proto": "NFS", "size": 1}}
        made = await self.member("POST", "/share/v2/shares", share, "2.82")
        self.known |= {"share_id": made["share"]["id"], "flavor_id": "1"}
        await self.cloud.settle()

    async def asks(self, service: str, route: Route) -> bool:
        """Whether one whose token is for a domain is let in."""
        return await self.ask(service, route, "domain") != "403"

    async def ask(self, service: str, route: Route, persona: str) -> str:
        """Ask as somebody, and return what stands in the table."""
        reads = route.method in {"GET", "HEAD"}
        known = self.known if reads else {}
        path = _NAMED.sub(lambda found: known.get(found[1], NOWHERE), route.path)
        body: dict[str, Any] | None = None if reads or route.method == "DELETE" else {}
        if route.action:
            body = {route.action: None}
        headers = {"x-auth-token": self.tokens.get(persona, "")}
        headers |= {"content-type": route.media[0]} if body is not None else {}
        version = route.until or (99, 99)
        told = "latest" if version == (99, 99) else f"{version[0]}.{version[1]}"
        has_versions = service not in {"identity", "image"}
        answer = await self.cloud.ask(
            route.method,
            SERVICES[service][0] + path,
            body,
            version=told if has_versions else None,
            headers=headers,
        )
        if (route.method, route.path) == _ENDS_ALL and answer.status < 300:
            for name, home in self.homes.items():
                self.tokens[name] = await self.log_in(f"the-{name}", home)
        if answer.status in {401, 403} or (answer.status == 404 and reads):
            return str(answer.status)
        return "yes" if reads or route.policy is not None or route.open else "thing"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def town(tmp_path: Path) -> AsyncIterator[Town]:
    async with SimulatedCloud(tmp_path) as cloud:
        made = Town(cloud)
        await made.settle_down()
        yield made


_ENDS_ALL = ("DELETE", "/mooring/tokens")
"""Behind it everybody logs in again."""


def order(route: Route) -> tuple[str, str, str, tuple[int, int]]:
    return route.path, route.method, route.action, route.since or (0, 0)


@pytest.mark.parametrize("service", SERVICES)
async def test_who_is_let_in_is_as_reviewed(
    town: Town, service: str, golden: Callable[[str, str], None]
) -> None:
    rows: list[str] = []
    for route in sorted(routes_of(service), key=order):
        cells = [await town.ask(service, route, persona) for persona in PERSONAS]
        name = f"{route.method} {route.path} {route.action}".strip()
        since = f" ({route.since[0]}.{route.since[1]} on)" if route.since else ""
        rows.append(f"| `{name}`{since} | {' | '.join(cells)} |\n")
    lines = "|".join("---" for _ in PERSONAS)
    heading = _HEADING.format(service=service, personas=" | ".join(PERSONAS), lines=lines)
    golden(f"docs/access/{service}.md", heading + "".join(dict.fromkeys(rows)))


@pytest.mark.parametrize("service", ["volume", "share", "compute"])
async def test_a_token_for_no_project_opens_nothing_that_is_a_projects(
    town: Town, service: str
) -> None:
    """What it made would belong to no project, and so to everybody with such a token."""
    let_in = {route.path for route in routes_of(service) if await town.asks(service, route)}
    assert let_in == set()


def test_nobody_is_let_in_but_where_a_login_is() -> None:
    open_ones = {
        f"{route.method} {route.path}"
        for service in SERVICES
        for route in routes_of(service)
        if route.open
    }
    assert open_ones == {"POST /auth/tokens", "POST /users/{user_id}/password"}
