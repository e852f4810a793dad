"""Key pairs that a user makes at once, on both databases."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.cloud import SimulatedCloud

pytestmark = pytest.mark.anyio
_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl a@b"


async def test_those_that_are_made_at_once_do_not_exceed_the_quota(
    database: str, tmp_path: Path
) -> None:
    async with SimulatedCloud(tmp_path, database=database, hosts=()) as cloud:
        projects = await cloud.ask("GET", "/identity/v3/projects?name=demo", user="admin")
        quota = f"/compute/v2.1/os-quota-sets/{projects.body['projects'][0]['id']}"
        limit = {"quota_set": {"key_pairs": 2}}
        assert (await cloud.ask("PUT", quota, limit, user="admin")).status == 200
        await cloud.ask("GET", "/compute/v2.1/os-keypairs")

        async def make(number: int) -> int:
            body = {"keypair": {"name": f"k{number}", "public_key": _KEY}}
            return (await cloud.ask("POST", "/compute/v2.1/os-keypairs", body)).status

        statuses = await asyncio.gather(*(make(number) for number in range(8)))
        assert statuses.count(200) + statuses.count(201) == 2, statuses
