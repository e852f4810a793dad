"""An identity service with its first users, and a client that speaks to it by HTTP's rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import msgspec
from msgspec import Struct

from mooring.clients.transport import Network
from mooring.clock import SimulatedClock
from mooring.identity import bootstrap
from mooring.identity.app import SERVICE
from mooring.identity.keys import TokenKeys
from mooring.identity.passwords import Hasher
from mooring.identity.service import Identity
from mooring.identity.tokens import LocalValidator
from tests.migrated import open_store

ROOT = "http://town/identity"
URLS = {
    "identity": f"{ROOT}/v3",
    "compute": "http://town/compute/v2.1",
    "block-storage": "http://town/volume/v3",
}
DEFAULT = {"id": "default"}


class Answer(Struct):
    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.content)


class Town:
    def __init__(self, identity: Identity, passwords: dict[str, str]) -> None:
        self.identity, self.passwords = identity, passwords
        self.network = Network()
        validator = LocalValidator(identity)
        app = SERVICE.build(
            identity, validator=validator, public_url=ROOT, identity_url=f"{ROOT}/v3"
        )
        self.network.serve(ROOT, app)
        self.tokens: dict[str, str] = {}

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        by: str = "",
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Send a request; `by` is a token, or the name of a user of the first hour."""
        sent = dict(headers or {})
        if by:
            sent["X-Auth-Token"] = await self.token(by) if by in self.passwords else by
        content = b"" if body is None else msgspec.json.encode(body)
        if body is not None:
            sent["Content-Type"] = "application/json"
        request = httpx2.Request(
            method, f"{ROOT}/v3{path}", headers=sent, stream=httpx2.ByteStream(content)
        )
        response = await self.network.handle_async_request(request)
        content = await response.aread()
        named = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status_code, named, content)

    async def get(self, path: str, *, by: str = "admin") -> Any:
        answer = await self.ask("GET", path, by=by)
        assert answer.status == 200, answer
        return answer.json

    async def make(self, path: str, body: Any, *, by: str = "admin") -> Any:
        answer = await self.ask("POST", path, body, by=by)
        assert answer.status == 201, answer
        return next(iter(answer.json.values()))

    async def log_in(
        self, name: str, password: str | None = None, *, project: str | None = "", **auth: Any
    ) -> Answer:
        """Log in by password, to `project`: the user's first one unless it is named or None."""
        home = {"admin": "admin", "demo": "demo"}.get(name, "service")
        user = {"name": name, "domain": DEFAULT, "password": password or self.passwords[name]}
        if project is not None:
            auth["scope"] = {"project": {"name": project or home, "domain": DEFAULT}}
        identity = {"methods": ["password"], "password": {"user": user}}
        return await self.ask("POST", "/auth/tokens", {"auth": {"identity": identity, **auth}})

    async def token(self, name: str) -> str:
        if name not in self.tokens:
            answer = await self.log_in(name)
            assert answer.status == 201, answer
            self.tokens[name] = answer.headers["x-subject-token"]
        return self.tokens[name]

    async def show(self, token: str, *, by: str = "compute", query: str = "") -> Answer:
        """Validate a token, as a service does."""
        headers = {"X-Subject-Token": token}
        return await self.ask("GET", f"/auth/tokens{query}", by=by, headers=headers)

    async def id_of(self, kind: str, name: str) -> str:
        [row] = (await self.get(f"/{kind}?name={name}"))[kind]
        return row["id"]

    async def add_user(self, name: str, password: str, *, role: str, project: str) -> str:
        user = {"name": name, "password": password}
        user_id = (await self.make("/users", {"user": user}))["id"]
        role_id = await self.id_of("roles", role)
        project_id = await self.id_of("projects", project)
        path = f"/projects/{project_id}/users/{user_id}/roles/{role_id}"
        assert (await self.ask("PUT", path, by="admin")).status == 204
        self.passwords[name] = password
        return user_id


async def enter(directory: Path, location: str = "") -> Identity:
    """Return the identity service whose files lie in a directory, or in a database elsewhere."""
    store = await open_store(location or str(directory), "identity", inline=not location)
    return Identity(
        store=store,
        clock=SimulatedClock(),
        keys=TokenKeys(directory / "token-keys"),
        hasher=Hasher(rounds=4),
    )


async def found(directory: Path) -> dict[str, str]:
    """Make a directory with the first users in it; return their passwords."""
    identity = await enter(directory)
    passwords = await bootstrap.ensure(identity, urls=URLS)
    await identity.store.close()
    return passwords


def turn(town: Town, seconds: float) -> None:
    clock = town.identity.clock
    assert isinstance(clock, SimulatedClock)
    clock.advance(seconds)
