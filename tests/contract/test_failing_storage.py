"""Storage that fails once is asked again: no driver takes its failure for an answer.

What one file alone has a part in, `test_damaged_volumes.py` has.
"""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from msgspec import Struct

from mooring.agent.drivers.base import VolumeDriver
from mooring.agent.drivers.directory import DirectoryDriver
from mooring.agent.drivers.simulated import SimulatedDriver
from mooring.agent.settings import PoolSettings
from mooring.agent.share_drivers.base import ShareDriver
from mooring.agent.share_drivers.directory import DirectoryShares
from mooring.agent.share_drivers.simulated import SimulatedShares
from mooring.errors import NoCapacity, Unavailable
from mooring.fence.journal import Journal
from tests.agent.share_pools import share_pool
from tests.contract.test_volume_driver import HERE, image, make_driver, volume

pytestmark = pytest.mark.anyio
STALE = OSError(errno.ESTALE, "Stale file handle")
_REAL = [pytest.param(kind, marks=pytest.mark.hosts) for kind in ("raw", "qcow2")]


class Asked(Struct, frozen=True):
    """One call of a driver, and the point of its knobs, where it is simulated."""

    point: str
    call: Callable[[VolumeDriver, Path], Awaitable[object]]


VERBS = {
    "find": Asked("find", lambda driver, _: driver.find("v1")),
    "volumes": Asked("volumes", lambda driver, _: driver.volumes()),
    "stats": Asked("stats", lambda driver, _: driver.stats()),
    "create": Asked("create", lambda driver, _: driver.create(volume(driver), None, "op")),
    "extend": Asked("extend", lambda driver, _: driver.extend("v1", 2, "op")),
    "replace": Asked("replace", lambda driver, at: driver.replace("v1", image(at), "op")),
    "export": Asked("export", lambda driver, _: driver.export("v1", "a1", HERE)),
    "unexport": Asked("unexport", lambda driver, _: driver.unexport("v1", "a1")),
    "holders": Asked("find", lambda driver, _: driver.holders("v1")),
    "prepare": Asked("snapshot", lambda driver, _: driver.prepare_snapshot("v1", "s1", "op")),
    "take": Asked("snapshot", lambda driver, _: driver.take_snapshot("v1", "s1", "op")),
    "merge": Asked("merge", lambda driver, _: driver.delete_snapshot("v1", "s0", "op")),
    "revert": Asked("revert", lambda driver, _: driver.revert("v1", "s0", "op")),
    "copy": Asked("find", lambda driver, _: driver.volume_source("v1")),
    "capture": Asked(
        "capture", lambda driver, at: driver.capture("v1", (at / "captured", "raw"), "op")
    ),
    "rename": Asked("rename", lambda driver, _: driver.rename("v1", "v2")),
    "delete": Asked("delete", lambda driver, _: driver.delete("v1")),
}


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncGenerator[Journal]:
    made = Journal(tmp_path / "journal.sqlite")
    yield made
    await made.close()


@pytest.fixture(params=["simulated", *_REAL])
async def driver(
    request: pytest.FixtureRequest, tmp_path: Path, journal: Journal
) -> AsyncGenerator[VolumeDriver]:
    made = make_driver(request.param, tmp_path, journal)
    await made.setup()
    await made.create(volume(made), None, "op")
    yield made
    await made.close()


LISTS = ("volumes", "stats")
"""What looks at all volumes: one that cannot be read hides no other there."""


@contextmanager
def failing(driver: VolumeDriver, point: str) -> Generator[None]:
    """Let the storage under a volume fail in the body: its record cannot be read.

    For a list all of it fails, and says so where it is asked for its space.
    """
    if isinstance(driver, SimulatedDriver):
        driver.knobs.fail(point, STALE)
        yield
        return
    assert isinstance(driver, DirectoryDriver)
    with ExitStack() as stack:
        if point in LISTS:
            patched = stack.enter_context(pytest.MonkeyPatch.context())
            patched.setattr(os, "statvfs", fail)
        stack.enter_context(unreadable(driver.record_path("v1")))
        yield


def fail(path: Path) -> None:
    """Stand for a call to storage that fails."""
    del path
    raise STALE


@contextmanager
def unreadable(path: Path) -> Generator[None]:
    """Have a directory in a file's place in the body: whoever reads it gets EISDIR."""
    aside = path.with_name("aside")
    path.rename(aside)
    path.mkdir()
    yield
    path.rmdir()
    aside.rename(path)


@pytest.mark.parametrize("verb", VERBS)
async def test_each_verb_says_that_the_storage_failed_and_does_its_work_then(
    driver: VolumeDriver, tmp_path: Path, verb: str
) -> None:
    if verb in {"merge", "revert"}:
        await driver.take_snapshot("v1", "s0", "op")
    asked = VERBS[verb]
    with failing(driver, asked.point), pytest.raises(Unavailable, match="pool pool failed") as told:
        await asked.call(driver, tmp_path)
    is_whole = verb in LISTS or isinstance(driver, SimulatedDriver)
    name = "ESTALE" if is_whole else "EISDIR"
    assert told.value.private.startswith(f"{name}: ")
    await asked.call(driver, tmp_path)


async def test_full_storage_is_told_as_full(tmp_path: Path) -> None:
    driver = SimulatedDriver(PoolSettings(name="pool", driver="simulated"), tmp_path / "pool")
    await driver.setup()
    for number in (errno.ENOSPC, errno.EDQUOT):
        driver.knobs.fail("create", OSError(number, "full"))
        with pytest.raises(NoCapacity, match="pool pool is full"):
            await driver.create(volume(driver), None, "op")
    await driver.close()


@pytest.mark.parametrize("kind", ["simulated NFS", "directory"])
async def test_a_share_whose_storage_fails_is_asked_for_again(
    tmp_path: Path, journal: Journal, kind: str
) -> None:
    async with share_pool(kind, tmp_path, journal) as pool:
        driver = pool.driver
        await driver.create("s1", 1, None, "op")
        for call in (
            lambda: driver.find("s1"),
            lambda: driver.resize("s1", 2, "op"),
            lambda: driver.grant("s1", pool.grant()),
        ):
            with failing_share(driver), pytest.raises(Unavailable, match=r"of pool .* failed"):
                await call()
            await call()


@contextmanager
def failing_share(driver: ShareDriver) -> Generator[None]:
    """Let the storage under a share fail in the body."""
    if isinstance(driver, SimulatedShares):
        driver.knobs.fail("find", STALE)
        yield
        return
    assert isinstance(driver, DirectoryShares)
    with unreadable(driver.path("s1").parent / ".mooring" / "share-s1.json"):
        yield
