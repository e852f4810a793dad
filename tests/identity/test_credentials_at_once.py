"""Application credentials that a user makes at once, on both databases."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mooring.identity import credentials
from tests.identity.cloud import IdentityCloud

pytestmark = pytest.mark.anyio


async def test_there_are_never_more_than_fit(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "IDENTITY_CREDENTIALS", 2)
    async with IdentityCloud(tmp_path, database=database) as cloud:
        user_id = await cloud.id_of("users", "demo")

        async def make(number: int) -> int:
            body = {"application_credential": {"name": f"c{number}"}}
            path = f"/users/{user_id}/application_credentials"
            return (await cloud.ask("POST", path, body, user="demo")).status

        statuses = await asyncio.gather(*(make(number) for number in range(8)))
        assert statuses.count(201) == 2, statuses
