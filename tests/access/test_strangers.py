"""A manager of another project changes nothing here, whatever is sent: real ids, bodies that fit.

Each route that writes is asked as `tests/crowd` asks it, about what an administrator has made in a
project of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.answers import Answer
from tests.cloud import SimulatedCloud
from tests.crowd.case import Case
from tests.crowd.clients import SERVICES, Crowd, with_two_pools
from tests.sampling import choose

pytestmark = pytest.mark.anyio
SAMPLE = 10
PASSWORD = "as long as it is secret"
OWN = {
    "identity": {"POST /auth/tokens", "POST /users/{user_id}/password"},
    "image": {"POST /images"},
    "volume": {"POST /volumes"},
    "share": {"POST /shares"},
    "compute": {"POST /servers", "POST /os-keypairs", "POST /os-server-groups"},
}
"""What anybody may: log in, change a password whose former one is shown, make something of one's
own."""

UNSEEN = {"POST /resource-locks"}
"""What names in its body something that is not there for a stranger: it does not fit then."""


class Stranger:
    """Somebody of another project, who asks for what a crowd of administrators asks for."""

    def __init__(self, crowd: Crowd) -> None:
        self.crowd, self.cloud = crowd, crowd.cloud
        self.login: dict[str, Any] = {}

    async def move_in(self) -> None:
        """Become a manager of a project of one's own."""
        project = (await self._make("project", name="elsewhere"))["id"]
        user = (await self._make("user", name="stranger", password=PASSWORD))["id"]
        roles = (await self.crowd.ask("GET", "/identity/v3/roles?name=manager")).key("roles")
        path = f"/identity/v3/projects/{project}/users/{user}/roles/{roles[0]['id']}"
        assert (await self.crowd.ask("PUT", path)).status == 204
        proof = {"methods": ["password"], "password": {"user": {"id": user, "password": PASSWORD}}}
        self.login = {"auth": {"identity": proof, "scope": {"project": {"id": project}}}}

    async def token(self) -> str:
        """Log in: time flies here, and with it what a token is good for."""
        given = await self.crowd.ask("POST", "/identity/v3/auth/tokens", self.login)
        return given.headers["x-subject-token"]

    async def _make(self, kind: str, **fields: Any) -> dict[str, Any]:
        return (await self.crowd.ask("POST", f"/identity/v3/{kind}s", {kind: fields})).key(kind)

    async def try_out(self, case: Case, number: int) -> Answer:
        """Have what a case needs made by its owner, and ask for it as a stranger."""
        await self.cloud.look_at_hosts()
        name = f"case{number}"
        names = {"case": name, "CASE": name.upper(), "case12": str(number).zfill(11)}
        names = {**self.crowd.names, **names}
        for ask in case.before:
            await self.crowd.prepare(ask, names)
        method, path, body = case.request(0, names)
        if body is None and method != "DELETE":
            body = dict[str, Any]()
        headers = {"x-auth-token": await self.token(), "content-type": case.media}
        has_versions = self.crowd.root not in {"/identity/v3", "/image/v2"}
        answer = await self.cloud.do(
            method,
            self.crowd.root + path,
            body,
            headers={name: value for name, value in headers.items() if value},
            version=case.version if has_versions else "",
        )
        assert answer is not None
        await self.cloud.settle()
        return answer


def is_refusal(case: Case, status: int) -> bool:
    if case.refused:
        return status >= 400  # What is not built here is refused to everybody.
    return status in {403, 404} or (status == 400 and case.route in UNSEEN)


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[SimulatedCloud]:
    async with with_two_pools(SimulatedCloud(tmp_path / "state")) as made:
        yield made


@pytest.mark.parametrize("service", SERVICES)
async def test_a_stranger_changes_nothing_with_real_ids_and_bodies_that_fit(
    cloud: SimulatedCloud, service: str, pytestconfig: pytest.Config
) -> None:
    root, cases = SERVICES[service]
    crowd = Crowd(cloud, root)
    await crowd.furnish()
    stranger = Stranger(crowd)
    await stranger.move_in()
    numbered = list(enumerate(cases))
    wrong: dict[str, str] = {}
    for number, case in choose(pytestconfig, f"a stranger to {service}", numbered, SAMPLE):
        answer = await stranger.try_out(case, number)
        is_own = case.route in OWN.get(service, set())
        is_right = answer.status < 300 if is_own else is_refusal(case, answer.status)
        if not is_right:
            wrong[case.route] = f"{answer.status} {answer.text[:300]}"
    assert wrong == {}
