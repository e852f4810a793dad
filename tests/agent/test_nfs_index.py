"""The index of what Ganesha gives away, on a disk that takes no more."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from mooring.agent import files
from mooring.agent.share_drivers import restoring
from mooring.agent.waiting import until
from mooring.errors import Unavailable
from tests.agent.nfs_machine import Machine

pytestmark = pytest.mark.anyio


class FullDisk:
    """Takes no index while it is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
        self.is_full, finish = True, files.finish

        def take(written: Path, path: Path) -> None:
            if self.is_full and path.name == "index.conf":
                raise OSError(code, "it takes nothing")
            finish(written, path)

        monkeypatch.setattr(files, "finish", take)
        monkeypatch.setattr(restoring, "AGENT_SHARE_RETRY_S", 0.02)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path / "shares")
    made.lay("s1", 1000)
    return made


async def is_given(machine: Machine) -> bool:
    return await until(lambda: list(machine.given) == ["s1"], 5, pause_s=0.01)


async def test_an_index_that_is_right_is_not_written_anew(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = machine.open()
    await driver.setup()
    assert await is_given(machine)
    await driver.close()
    machine.given.clear()
    FullDisk(monkeypatch, errno.ENOSPC)
    await driver.setup()
    assert await is_given(machine)
    assert (await driver.stats()).shares == 1
    await driver.close()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
async def test_a_host_starts_whose_index_cannot_be_written_and_says_why(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    disk, driver = FullDisk(monkeypatch, code), machine.open()
    await driver.setup()
    with pytest.raises(Unavailable) as raised:
        await driver.stats()
    async with asyncio.timeout(5):
        while (share := (await driver.shares())[0]).problem != raised.value.public:
            assert share.problem
    assert code != errno.ENOSPC or "is full" in share.problem
    assert machine.given == {}
    assert await driver.leftovers() == []
    disk.is_full = False
    assert await is_given(machine)
    index = machine.directory / "exports" / "index.conf"
    assert "share-s1.conf" in index.read_text("utf-8")
    await driver.close()
    assert [one.problem for one in await driver.shares()] == [""]
