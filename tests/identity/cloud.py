"""A cloud of the identity service alone, with the users of a first start, and a client of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mooring import access
from mooring.identity.app import SERVICE
from mooring.identity.passwords import Hasher
from mooring.identity.service import Identity
from mooring.services import SERVICES
from tests.answers import Answer
from tests.cloud import URL, SimulatedCloud

ROOT = f"{URL}/identity"
URLS = {each.kind: f"{URL}/{each.entry}" for each in SERVICES}
DEFAULT = {"id": "default"}


class IdentityCloud(SimulatedCloud):
    """The service and everything to talk to it with. A user is named, or their token is."""

    root, user = "/identity/v3", ""

    def __init__(self, directory: Path, **how: Any) -> None:
        super().__init__(directory, services=(SERVICE,), hosts=(), inline=True, **how)
        self.tokens: dict[str, str] = {}

    async def open_control(self) -> None:
        await super().open_control()
        self.identity: Identity = self.cloud[SERVICE]
        self.identity.hasher = Hasher(rounds=4)
        text = (self.settings.state_path / access.PASSWORDS).read_text()
        self.passwords: dict[str, str] = json.loads(text)

    async def get(self, path: str, *, user: str = "admin") -> Any:
        answer = await self.ask("GET", path, user=user)
        assert answer.status == 200, answer
        return answer.body

    async def make(self, path: str, body: Any, *, user: str = "admin") -> Any:
        answer = await self.ask("POST", path, body, user=user)
        assert answer.status == 201, answer
        return next(iter(answer.body.values()))

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

    async def token(self, user: str) -> str:
        if user not in self.passwords:
            return user
        if user not in self.tokens:
            answer = await self.log_in(user)
            assert answer.status == 201, answer
            self.tokens[user] = answer.headers["x-subject-token"]
        return self.tokens[user]

    async def show(self, token: str, *, user: str = "compute", query: str = "") -> Answer:
        """Validate a token, as a service does."""
        headers = {"X-Subject-Token": token}
        return await self.ask("GET", f"/auth/tokens{query}", user=user, headers=headers)

    async def id_of(self, kind: str, name: str) -> str:
        [row] = (await self.get(f"/{kind}?name={name}"))[kind]
        return row["id"]

    async def add_user(self, name: str, password: str, *, role: str, project: str) -> str:
        user = {"name": name, "password": password}
        user_id = (await self.make("/users", {"user": user}))["id"]
        role_id = await self.id_of("roles", role)
        project_id = await self.id_of("projects", project)
        path = f"/projects/{project_id}/users/{user_id}/roles/{role_id}"
        assert (await self.ask("PUT", path, user="admin")).status == 204
        self.passwords[name] = password
        return user_id
