"""A secret is there whole or not at all, and of one that a killed process wrote nothing is left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.agent import membership
from mooring.agent.app import open_agent
from mooring.agent.membership import KEY, RENEWAL_KEY, Membership, ensure_key
from mooring.agent.settings import AgentSettings
from mooring.secret_file import ensure_secret, remove_unfinished, write_secret
from tests.cloud import SimulatedCloud

pytestmark = pytest.mark.anyio
_DIES = "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)"
_BY = {
    "a secret": "from mooring.secret_file import write_secret; write_secret(path, b'secret')",
    "a key": "from mooring.agent.membership import ensure_key; ensure_key(path)",
    "a seal": "from mooring.saga.seal import load_sealer; load_sealer(path)",
}


def die_over(what: str, path: Path) -> None:
    """Let a process be killed while it writes a file."""
    path.parent.mkdir(exist_ok=True)
    words = f"import os, signal; from pathlib import Path; path = Path({str(path)!r}); {_DIES}"
    ended = subprocess.run([sys.executable, "-c", f"{words}; {_BY[what]}"], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert names(path.parent)


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def settings_of(directory: Path) -> AgentSettings:
    return AgentSettings(name="h", state_dir=directory, hypervisor="simulated")


@pytest.mark.parametrize("what", _BY)
async def test_an_agent_removes_what_a_killed_one_was_writing(what: str, tmp_path: Path) -> None:
    state = tmp_path / "state"
    die_over(what, state / "moves.key")
    left = names(state)
    async with open_agent(settings_of(state)):
        assert not names(state) & left


@pytest.mark.parametrize("what", _BY)
async def test_a_cloud_removes_what_a_killed_one_was_writing(what: str, tmp_path: Path) -> None:
    state = tmp_path / "state"
    die_over(what, state / "seal.key")
    left = names(state)
    async with SimulatedCloud(state, hosts=()):
        assert not names(state) & left


async def test_what_the_release_before_left_of_its_keys_goes_too(tmp_path: Path) -> None:
    for name in ("joining.key.fresh.7", "seal.key.7.new", "lock", "joining.key", "hypervisor.new"):
        (tmp_path / name).touch()
    await asyncio.to_thread(remove_unfinished, tmp_path)
    assert names(tmp_path) == {"lock", "joining.key", "hypervisor.new"}


async def test_what_is_being_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several processes of a cloud on PostgreSQL may have one state directory."""
    fsync = os.fsync

    def sweep(descriptor: int) -> None:
        remove_unfinished(tmp_path)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", sweep)
    write_secret(tmp_path / "a", b"one")
    assert ensure_secret(tmp_path / "b", lambda: b"two") == b"two"
    assert (names(tmp_path), (tmp_path / "a").read_bytes()) == ({"a", "b"}, b"one")


async def test_a_file_that_was_swept_before_it_was_held_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, swept = os.open, list[str]()

    def sweep(path: Path, flags: int, *how: int) -> int:
        descriptor = begin(path, flags, *how)
        if flags & os.O_CREAT and not swept:
            swept.append(str(path))
            remove_unfinished(tmp_path)
        return descriptor

    monkeypatch.setattr(os, "open", sweep)
    write_secret(tmp_path / "a", b"one")
    assert (len(swept), names(tmp_path)) == (1, {"a"})


async def test_all_who_make_one_secret_have_the_first_ones(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(ensure_key, [tmp_path / KEY] * 8))
    assert (len(set(made)), names(tmp_path)) == (1, {KEY})


@pytest.mark.parametrize("name", [KEY, RENEWAL_KEY])
async def test_a_key_that_a_host_has_a_certificate_for_is_not_kept_for_the_next(
    name: str, tmp_path: Path
) -> None:
    """It was killed between its certificate and the removal of the key beside it."""
    key = ensure_key(tmp_path / name).decode()
    member = Membership(
        name="h",
        roles=["compute"],
        address="10.0.0.1:1",
        token="",
        authority="",
        certificate="",
        key=key,
    )
    membership.write(tmp_path, member)
    async with open_agent(settings_of(tmp_path)):
        assert not (tmp_path / name).exists()
    membership.write(tmp_path, replace(member, key="another"))
    ensure_key(tmp_path / name)
    async with open_agent(settings_of(tmp_path)):
        assert (tmp_path / name).exists()
