"""A kept cloud is the same one for all who open it, and they are one at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cloud import SimulatedCloud
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
VOLUMES = "/volume/v3/volumes"
WHAT = "a volume"


async def make_volume(cloud: SimulatedCloud) -> str:
    made = await cloud.ask("POST", VOLUMES, {"volume": {"size": 1}})
    await cloud.settle()
    return made.key("volume")["id"]


async def volumes(cloud: SimulatedCloud) -> list[str]:
    answer = await cloud.ask("GET", VOLUMES)
    return sorted(one["id"] for one in answer.key("volumes"))


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    return Keeper(tmp_path)


async def test_who_comes_later_finds_what_was_made_and_nothing_of_who_was_before(
    keeper: Keeper,
) -> None:
    async with keeper.open(SimulatedCloud, make_volume, WHAT) as (cloud, first):
        other = await make_volume(cloud)
        assert await volumes(cloud) == sorted([first, other])
    async with keeper.open(SimulatedCloud, make_volume, WHAT) as (cloud, second):
        assert second == first
        assert await volumes(cloud) == [first]
        shown = await cloud.ask("GET", f"{VOLUMES}/{first}")
        assert shown.key("volume")["status"] == "available"


async def test_another_one_is_refused_while_one_is_open_and_no_longer(keeper: Keeper) -> None:
    async with keeper.open(SimulatedCloud, make_volume, WHAT) as (cloud, made):
        for what in (WHAT, "another volume"):
            with pytest.raises(
                RuntimeError, match=f"with {WHAT} is open still, and one with {what}"
            ):
                async with keeper.open(SimulatedCloud, make_volume, what):
                    pass
        assert await volumes(cloud) == [made]
    async with keeper.open(SimulatedCloud, make_volume, WHAT) as (cloud, again):
        assert again == made
        assert await volumes(cloud) == [made]


async def test_one_that_could_not_be_made_is_in_nobody_s_way(keeper: Keeper) -> None:
    async def fail(_: SimulatedCloud) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        async with keeper.open(SimulatedCloud, fail, WHAT):
            pass
    async with keeper.open(SimulatedCloud, make_volume, WHAT) as (cloud, made):
        assert await volumes(cloud) == [made]
