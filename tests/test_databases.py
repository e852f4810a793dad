"""`mooring db` looks after the databases of a cloud, and makes none where there is no cloud."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mooring import state_dir
from mooring.admin_command import restore_admin
from mooring.config import Settings
from mooring.databases import check, upgrade
from mooring.errors import Conflict, Invalid, Unavailable
from mooring.services import databases_of
from tests.cloud import SimulatedCloud

pytestmark = pytest.mark.anyio
NAMES = databases_of(has_fleet=False)
Command = Callable[[Settings, Callable[[str], None]], Awaitable[int | None]]


def made_in(directory: Path) -> list[str]:
    """Return what a directory holds, by its paths in it."""
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


@pytest.mark.parametrize("command", [upgrade, check, restore_admin])
async def test_a_directory_without_a_cloud_is_refused_and_stays_as_it_is(
    tmp_path: Path, command: Command
) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "journal.sqlite").touch()
    for name in ("missing", "agent"):
        said: list[str] = []
        with pytest.raises(Invalid, match=f"no cloud in {tmp_path / name}.*--state-dir"):
            await command(Settings(state_dir=str(tmp_path / name)), said.append)
        assert not said
    assert made_in(tmp_path) == ["agent", "agent/journal.sqlite"]


async def test_a_cloud_that_does_not_run_is_looked_after(tmp_path: Path) -> None:
    async with SimulatedCloud(tmp_path):
        pass
    settings, said = Settings(state_dir=str(tmp_path)), list[str]()
    # Without its key it is a cloud all the same.
    (tmp_path / "seal.key").unlink()
    await upgrade(settings, said.append)
    assert said == [f"{name}: this release's" for name in NAMES]
    said.clear()
    assert await check(settings, said.append) == 0
    assert said == [f"{name}: of this release" for name in NAMES]


async def test_what_a_first_start_did_not_come_to_is_made_by_an_upgrade(tmp_path: Path) -> None:
    """As it was killed behind its first secret, or in the middle of its databases."""
    settings, said = Settings(state_dir=str(tmp_path)), list[str]()
    (tmp_path / "seal.key").write_bytes(b"k" * 32)
    assert await check(settings, said.append) == 1
    assert all("not made yet" in line for line in said)
    await upgrade(settings, said.append)
    assert await check(settings, said.append) == 0


async def test_databases_of_a_running_cloud_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "seal.key").write_bytes(b"k" * 32)
    running = state_dir.hold(tmp_path)
    with pytest.raises(Conflict, match="in use"):
        await upgrade(Settings(state_dir=str(tmp_path)), print)
    running.release()
    assert made_in(tmp_path) == ["lock", "seal.key"]


async def test_a_database_that_does_not_answer_is_named_with_why(tmp_path: Path) -> None:
    # Nothing listens on the first port: it is of a service that no system starts.
    settings = Settings(state_dir=str(tmp_path), database="postgresql://127.0.0.1:1/none")
    with pytest.raises(Unavailable, match=r"service identity cannot be read: .*refused.* Nothing"):
        await check(settings, print)
    (tmp_path / "identity.sqlite").write_bytes(b"no database" * 512)
    with pytest.raises(Unavailable, match="service identity cannot be read: file is not"):
        await check(Settings(state_dir=str(tmp_path)), print)
