"""Projects that administrators name, and what identity says of them."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.neighbour import Request, Response
from tests.callers import OTHER_PROJECT, PROJECT
from tests.cloud import URL
from tests.compute.api.cloud import ComputeAlone, fault_of

pytestmark = pytest.mark.anyio
UNKNOWN = "00000000000000000000000000000000"
FLAVOR = {
    "name": "f",
    "ram": 1,
    "vcpus": 1,
    "disk": 1,
    "id": "f",
    "os-flavor-access:is_public": False,
}


class Identity:
    """Answers between compute and identity: `status` for every project but the known ones."""

    def __init__(self) -> None:
        self.status, self.asked = 404, list[tuple[str, str]]()

    async def deliver(self, request: Request, forward: Any) -> Response:
        start = f"{URL}/identity/v3/projects/"
        if not request.target.startswith(start):
            return await forward(request)
        project_id = request.target.removeprefix(start)
        self.asked.append((project_id, request.headers["x-auth-token"]))
        status = 200 if project_id in (PROJECT, OTHER_PROJECT) else self.status
        return Response(status, b"{}", {"content-type": "application/json"})


@pytest.fixture
async def identity(any_cloud: ComputeAlone) -> Identity:
    found = Identity()
    any_cloud.deliver = found.deliver
    answer = await any_cloud.ask("POST", "/flavors", {"flavor": FLAVOR}, user="admin")
    assert answer.status == 200, answer.text
    return found


async def name(cloud: ComputeAlone, project_id: str) -> dict[str, Any]:
    """Name a project wherever identity is asked for it; return the answers."""
    path = f"/os-quota-sets/{project_id}"
    access, quota = {"addTenantAccess": {"tenant": project_id}}, {"quota_set": {"cores": 3}}
    return {
        "show": await cloud.ask("GET", path, user="admin"),
        "detail": await cloud.ask("GET", f"{path}/detail", user="admin"),
        "defaults": await cloud.ask("GET", f"{path}/defaults", user="admin"),
        "update": await cloud.ask("PUT", path, quota, user="admin"),
        "access": await cloud.ask("POST", "/flavors/f/action", access, user="admin"),
    }


async def test_a_project_that_identity_does_not_know_is_400(
    any_cloud: ComputeAlone, identity: Identity
) -> None:
    for answer in (await name(any_cloud, UNKNOWN)).values():
        status, key, message = fault_of(answer)
        assert (status, key) == (400, "badRequest")
        assert message.startswith(f"Project ID {UNKNOWN} is not a valid project.")
    assert identity.asked == [(UNKNOWN, "admin")] * 5
    found = await any_cloud.get("/flavors/f/os-flavor-access", user="admin")
    assert found == {"flavor_access": []}
    identity.status = 403
    shown = await any_cloud.get(f"/os-quota-sets/{UNKNOWN}", user="admin")
    assert shown["quota_set"]["cores"] == 20


async def test_a_project_that_is_known_is_taken(
    any_cloud: ComputeAlone, identity: Identity
) -> None:
    answers = await name(any_cloud, OTHER_PROJECT)
    assert {answer.status for answer in answers.values()} == {200}
    assert {project_id for project_id, _ in identity.asked} == {OTHER_PROJECT}


@pytest.mark.parametrize("status", [401, 403, 500, 503])
async def test_a_project_of_which_identity_says_nothing_is_taken(
    any_cloud: ComputeAlone, identity: Identity, status: int
) -> None:
    identity.status = status
    answers = await name(any_cloud, UNKNOWN)
    assert {answer.status for answer in answers.values()} == {200}


async def test_what_a_project_has_can_be_taken_when_it_is_gone(
    any_cloud: ComputeAlone, identity: Identity
) -> None:
    identity.status = 200
    assert (await name(any_cloud, UNKNOWN))["access"].status == 200
    identity.status = 404
    gone = await any_cloud.ask("DELETE", f"/os-quota-sets/{UNKNOWN}", user="admin")
    assert gone.status == 202
    access = {"removeTenantAccess": {"tenant": UNKNOWN}}
    answer = await any_cloud.ask("POST", "/flavors/f/action", access, user="admin")
    assert answer.body == {"flavor_access": []}


async def test_nobody_asks_identity_for_a_callers_own_project(
    any_cloud: ComputeAlone, identity: Identity
) -> None:
    await any_cloud.get(f"/os-quota-sets/{PROJECT}")
    assert identity.asked == []
