"""A default project that is deleted is nobody's default project any more."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.identity.cloud import IdentityCloud

pytestmark = pytest.mark.anyio


@pytest.fixture
async def any_cloud(database: str, tmp_path: Path) -> AsyncGenerator[IdentityCloud]:
    async with IdentityCloud(tmp_path, database=database) as opened:
        yield opened


async def _make(cloud: IdentityCloud, project: str, name: str) -> str:
    """Make a user of the default domain with a default project; return the path of it."""
    new = {"name": name, "default_project_id": project}
    path = f"/users/{(await cloud.make('/users', {'user': new}))['id']}"
    assert (await cloud.get(path))["user"]["default_project_id"] == project
    return path


async def _delete(cloud: IdentityCloud, path: str) -> None:
    answer = await cloud.ask("DELETE", path, user="admin")
    assert answer.status == 204, answer.text


async def test_a_deleted_project_is_taken_from_its_users_alone(any_cloud: IdentityCloud) -> None:
    one, other = [
        (await any_cloud.make("/projects", {"project": {"name": name}}))["id"] for name in "ab"
    ]
    user, stays = await _make(any_cloud, one, "u"), await _make(any_cloud, other, "v")
    await _delete(any_cloud, f"/projects/{one}")
    assert "default_project_id" not in (await any_cloud.get(user))["user"]
    assert (await any_cloud.get(stays))["user"]["default_project_id"] == other


async def test_a_deleted_domain_takes_its_projects_from_users_of_others(
    any_cloud: IdentityCloud,
) -> None:
    home = {"name": "blue", "enabled": False}
    domain = (await any_cloud.make("/domains", {"domain": home}))["id"]
    new = {"name": "p", "domain_id": domain}
    project = (await any_cloud.make("/projects", {"project": new}))["id"]
    user = await _make(any_cloud, project, "u")
    await _delete(any_cloud, f"/domains/{domain}")
    assert "default_project_id" not in (await any_cloud.get(user))["user"]
