"""What a cloud does when what is below it fails: its log's disk, its directory, its files."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
from pathlib import Path

import httpx2
import pytest
from sqlalchemy import delete
from sqlalchemy.orm import Session

from mooring import access, state_dir
from mooring.clock import SimulatedClock
from mooring.errors import Invalid, Unavailable
from mooring.identity.tables import SecretRow
from mooring.row_limits import STATE_LOOK_S
from tests.cloud import SimulatedCloud
from tests.kill.processes import CommandProcess, run_forked


def start(directory: Path, log: Path) -> CommandProcess:
    where = ("--state-dir", str(directory), "--listen", "127.0.0.1:0")
    return CommandProcess("up", *where, "--hypervisor", "simulated", log=log)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_log_without_room_ends_nothing(tmp_path: Path) -> None:
    process = start(tmp_path / "state", Path("/dev/full"))
    try:
        for _ in range(20):
            # Each of them is worth a line of the log.
            answer = httpx2.get(f"{process.ready}/compute/v2.1/servers", timeout=60.0)
            assert answer.status_code == 401
        process.popen.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    finally:
        process.popen.kill()
        process.popen.wait()


def test_a_cloud_whose_directory_is_removed_ends_and_says_so(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = start(tmp_path / "state", log)
    try:
        shutil.rmtree(tmp_path / "state")
        assert process.wait() == 1
    finally:
        process.popen.kill()
        process.popen.wait()
    assert "was removed or replaced while the cloud ran" in log.read_text()


@pytest.mark.anyio
@pytest.mark.parametrize("lost", ["identity.sqlite", "lock", ""])
async def test_whatever_is_lost_of_a_directory_is_noticed(lost: str, tmp_path: Path) -> None:
    state, clock = tmp_path / "state", SimulatedClock()
    held = state_dir.hold(state)
    (state / "identity.sqlite").touch()
    known = state_dir.seen(state)
    watching = asyncio.create_task(state_dir.until_lost(state, known, clock))
    await asyncio.sleep(0)
    if lost:
        (state / "other").touch()
        (state / "other").rename(state / lost)
    else:
        state.rename(tmp_path / "elsewhere")
    clock.advance(STATE_LOOK_S)
    with pytest.raises(Unavailable, match="removed or replaced"):
        await watching
    held.release()


class EnoughError(Exception):
    """It was looked often enough."""


class TwoLooks(SimulatedClock):
    def __init__(self) -> None:
        super().__init__()
        self.left = 2

    async def sleep(self, seconds: float) -> None:
        if not self.left:
            raise EnoughError
        self.left -= 1


@pytest.mark.anyio
@pytest.mark.parametrize("trouble", ["nothing", "an error"])
async def test_a_directory_that_cannot_be_listed_has_lost_nothing(
    trouble: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a storage that does not answer, or below a mode that somebody changed."""
    state = tmp_path / "state"
    held = state_dir.hold(state)
    (state / "identity.sqlite").touch()
    known = state_dir.seen(state)

    def glob(path: Path, pattern: str) -> list[Path]:
        if trouble == "an error":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path / pattern))
        return []

    monkeypatch.setattr(Path, "glob", glob)
    with pytest.raises(EnoughError):
        await state_dir.until_lost(state, known, TwoLooks())
    held.release()


@pytest.mark.anyio
async def test_passwords_that_nobody_knows_are_named_at_the_start(tmp_path: Path) -> None:
    """As after an upgrade from a release that kept them in the file alone."""
    cloud = SimulatedCloud(tmp_path / "state", hosts=())
    async with cloud:
        await cloud.cloud.stores["identity"].write(forget)
    file = tmp_path / "state" / access.PASSWORDS
    file.unlink()
    with pytest.raises(Invalid, match=r"passwords\.json is missing.*backup"):
        await cloud.open()
    file.write_text("{}")
    async with cloud:
        assert (await cloud.ask("GET", "/volume/v3/volumes", user="compute")).status == 200


def forget(tx: Session) -> None:
    tx.execute(delete(SecretRow))


def test_a_damaged_database_is_named_at_the_start(tmp_path: Path) -> None:
    process = start(tmp_path / "state", tmp_path / "log")
    process.popen.send_signal(signal.SIGTERM)
    assert process.wait() == 0
    file = tmp_path / "state" / "volume.sqlite"
    file.write_bytes(b"not a database, by any means" * 1000)
    where = ("--state-dir", str(tmp_path / "state"), "--listen", "127.0.0.1:0")
    code, _, warned = run_forked("up", *where, "--hypervisor", "simulated")
    assert code == 1
    assert f"{file} is damaged" in warned
