"""What ends a token is counted, not timed: a clock that was wrong for a while does no harm."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from mooring.clock import SimulatedClock
from mooring.errors import Unauthenticated
from mooring.identity import users
from tests.identity.cloud import IdentityCloud

pytestmark = pytest.mark.anyio

HOURS = pytest.mark.parametrize("hours", [-5, 5], ids=["back", "forward"])


@pytest.fixture
async def cloud(database: str, tmp_path: Path) -> AsyncGenerator[IdentityCloud]:
    """A service that has not begun yet: its first start is each test's."""
    made = IdentityCloud(tmp_path, database=database, start=SimulatedClock().now())
    yield made
    await made.close()


@HOURS
async def test_tokens_stand_after_a_first_start_with_a_wrong_clock(
    cloud: IdentityCloud, hours: int
) -> None:
    cloud.clock.step(hours * 3600)
    await cloud.open()
    cloud.clock.step(-hours * 3600)
    token = await cloud.token("demo")
    assert (await cloud.show(token)).status == 200


@HOURS
async def test_a_new_password_ends_older_tokens_whatever_the_clock_says(
    cloud: IdentityCloud, hours: int
) -> None:
    await cloud.open()
    token, user_id = await cloud.token("demo"), await cloud.id_of("users", "demo")
    await cloud.token("compute")
    cloud.clock.step(hours * 3600)
    body = {"user": {"original_password": cloud.passwords["demo"], "password": "another one"}}
    assert (await cloud.ask("POST", f"/users/{user_id}/password", body)).status == 204
    cloud.clock.step(-hours * 3600)
    assert (await cloud.show(token)).status == 404
    newer = (await cloud.log_in("demo", "another one")).headers["x-subject-token"]
    assert (await cloud.show(newer)).status == 200


async def test_of_two_who_change_a_password_at_once_one_is_refused(cloud: IdentityCloud) -> None:
    await cloud.open()
    user_id = await cloud.id_of("users", "demo")
    old = await cloud.identity.store.read(lambda tx: users.password_hash(tx, user_id))

    def change(tx: Session) -> None:
        users.change_password(tx, user_id, before=old, after="hash")

    await cloud.identity.store.write(change)
    with pytest.raises(Unauthenticated):
        await cloud.identity.store.write(change)
