"""What ends a token is counted, not timed: a clock that was wrong for a while does no harm."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from mooring.clock import SimulatedClock
from mooring.errors import Unauthenticated
from mooring.identity import bootstrap, users
from tests.identity.town import URLS, Town, enter

pytestmark = pytest.mark.anyio

HOURS = pytest.mark.parametrize("hours", [-5, 5], ids=["back", "forward"])


@pytest.fixture
async def town(database: str, tmp_path: Path) -> AsyncGenerator[Town]:
    """A service that nobody has founded yet."""
    identity = await enter(tmp_path, database)
    yield Town(identity, {})
    await identity.store.close()


async def found(town: Town) -> None:
    town.passwords |= await bootstrap.ensure(town.identity, urls=URLS, known={})


def step(town: Town, hours: int) -> None:
    clock = town.identity.clock
    assert isinstance(clock, SimulatedClock)
    clock.step(hours * 3600)


@HOURS
async def test_tokens_stand_after_a_first_start_with_a_wrong_clock(town: Town, hours: int) -> None:
    step(town, hours)
    await found(town)
    step(town, -hours)
    token = await town.token("demo")
    assert (await town.show(token)).status == 200


@HOURS
async def test_a_new_password_ends_older_tokens_whatever_the_clock_says(
    town: Town, hours: int
) -> None:
    await found(town)
    token, user_id = await town.token("demo"), await town.id_of("users", "demo")
    await town.token("compute")
    step(town, hours)
    body = {"user": {"original_password": town.passwords["demo"], "password": "another one"}}
    assert (await town.ask("POST", f"/users/{user_id}/password", body)).status == 204
    step(town, -hours)
    assert (await town.show(token)).status == 404
    newer = (await town.log_in("demo", "another one")).headers["x-subject-token"]
    assert (await town.show(newer)).status == 200


async def test_of_two_who_change_a_password_at_once_one_is_refused(town: Town) -> None:
    await found(town)
    user_id = await town.id_of("users", "demo")
    old = await town.identity.store.read(lambda tx: users.password_hash(tx, user_id))

    def change(tx: Session) -> None:
        users.change_password(tx, user_id, before=old, after="hash")

    await town.identity.store.write(change)
    with pytest.raises(Unauthenticated):
        await town.identity.store.write(change)
