"""What pools call themselves, whichever host sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.agent import files
from mooring.agent.drivers.base import VolumeDriver
from mooring.agent.drivers.directory import DirectoryDriver
from mooring.agent.drivers.simulated import SimulatedDriver
from mooring.agent.qemu_img import QemuImg
from mooring.agent.run import Runner
from mooring.agent.settings import PoolSettings
from mooring.fence.journal import Journal
from tests.agent.places import place

pytestmark = pytest.mark.anyio


def make(kind: str, directory: Path, host: str, journal: Journal) -> VolumeDriver:
    directory.mkdir(exist_ok=True)
    if kind == "simulated":
        pool = PoolSettings(name=host, driver="simulated")
        return SimulatedDriver(pool, directory / "pool.sqlite")
    return DirectoryDriver(
        PoolSettings(name=host), place(directory, host), QemuImg(Runner(journal))
    )


async def identity_of(driver: VolumeDriver) -> str:
    await driver.setup()
    told = (await driver.stats()).identity
    assert await driver.leftovers() == []
    await driver.close()
    return told


@pytest.mark.parametrize("kind", ["simulated", "directory"])
async def test_every_host_is_told_the_same_of_one_storage(kind: str, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    seen = [("one", "h1"), ("one", "h2"), ("one", "h1"), ("other", "h1")]
    told = [await identity_of(make(kind, tmp_path / at, host, journal)) for at, host in seen]
    assert told[0] == told[1] == told[2] != told[3]
    assert all(told)
    await journal.close()


async def test_of_two_hosts_that_name_one_at_a_time_one_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    one, other = (make("directory", tmp_path / "one", host, journal) for host in ("h1", "h2"))
    force = files.force

    def come_between(path: Path) -> None:
        force(path)
        if path.name.startswith("identity"):
            (path.parent / "identity").write_text("another")

    monkeypatch.setattr(files, "force", come_between)
    await one.setup()
    told = [(await one.stats()).identity, await identity_of(other)]
    assert told == ["another", "another"]
    await journal.close()


async def test_where_nothing_can_be_written_it_stays_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_up(path: Path) -> None:
        raise OSError(28, f"No space left under {path}")

    journal = Journal(tmp_path / "journal.sqlite")
    monkeypatch.setattr(files, "force", fill_up)
    assert await identity_of(make("directory", tmp_path / "one", "h1", journal)) == ""
    await journal.close()
