"""A copy of a cloud that is at work is a cloud: it opens, every operation ends, nothing misses."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mooring.backup import copy_state, run_backup
from mooring.config import Settings
from mooring.errors import Invalid, Unavailable
from tests.cloud import SimulatedCloud

pytestmark = pytest.mark.anyio
_VOLUMES, _SERVERS = "/volume/v3/volumes", "/compute/v2.1/servers"
_IMAGES = "/image/v2/images"
_STAY, _MOST = 3, 4
"""How many volumes of the load stay, and at most go: the quota is ten."""


async def make(cloud: SimulatedCloud, number: int) -> str:
    """Make a volume, and return its id."""
    answer = await cloud.ask("POST", _VOLUMES, {"volume": {"size": 1, "name": f"v{number}"}})
    assert answer.status == 202, answer
    return answer.body["volume"]["id"]


async def boot(cloud: SimulatedCloud, volume_id: str) -> None:
    """Begin to boot a server from a volume, and wait for nothing."""
    device = {"uuid": volume_id, "source_type": "volume", "destination_type": "volume"}
    server = {"name": "s", "flavorRef": "1", "networks": "none"}
    body = {"server": {**server, "block_device_mapping_v2": [{**device, "boot_index": 0}]}}
    answer = await cloud.ask("POST", _SERVERS, body, version="2.79")
    assert answer.status in {202, 400}, answer


async def load(cloud: SimulatedCloud, known: list[str], stop: asyncio.Event) -> None:
    """Make volumes and servers until told to stop; some volumes stay, and are known, others go."""
    number = 0
    while not stop.is_set():
        number += 1
        made = await make(cloud, number)
        await boot(cloud, made)
        if number <= _STAY:
            known.append(made)
        else:
            answer = await cloud.ask("DELETE", f"{_VOLUMES}/{made}?force=true")
            assert answer.status in {202, 400}, answer
            if number > _STAY + _MOST:
                return


async def names(cloud: SimulatedCloud, path: str, key: str) -> set[str]:
    found: list[dict[str, Any]] = (await cloud.ask("GET", path)).body[key]
    return {one["id"] for one in found}


async def test_a_backup_taken_under_load_opens_and_has_what_was_acknowledged_before(
    tmp_path: Path,
) -> None:
    known: list[str] = []
    stop = asyncio.Event()
    async with SimulatedCloud(tmp_path / "state") as cloud:
        known.append(await make(cloud, 0))
        working = asyncio.create_task(load(cloud, known, stop))
        copies: list[tuple[Path, set[str]]] = []
        for number in range(2):
            before, copy = set(known), tmp_path / f"copy-{number}"
            await asyncio.to_thread(copy_state, cloud.settings.state_path, copy)
            copies.append((copy, before))
        stop.set()
        await working
        await cloud.settle()
    for copy, before in copies:
        async with SimulatedCloud(copy) as restored:
            await restored.settle()
            assert await names(restored, _VOLUMES, "volumes") >= before
            assert await restored.complaints() == []
            await make(restored, 1)
            await restored.settle()


async def test_hosts_that_went_on_after_a_backup_obey_what_is_restored(tmp_path: Path) -> None:
    """They have seen operations that the restored cloud knows nothing of."""
    async with SimulatedCloud(tmp_path / "state") as cloud:
        volume_id = await make(cloud, 0)
        await cloud.settle()
        action, state = f"{_VOLUMES}/{volume_id}/action", cloud.settings.state_path
        await asyncio.to_thread(copy_state, state, tmp_path / "copy")
        for gib in (2, 3, 4):
            asked = await cloud.ask("POST", action, {"os-extend": {"new_size": gib}})
            assert asked.status == 202
            await cloud.settle()
        later = cloud.clock.now() + timedelta(minutes=1)
    shutil.rmtree(tmp_path / "copy" / "hosts", ignore_errors=True)
    shutil.copytree(state / "hosts", tmp_path / "copy" / "hosts", symlinks=True)
    async with SimulatedCloud(tmp_path / "copy", start=later) as restored:
        asked = await restored.ask("POST", action, {"os-extend": {"new_size": 5}})
        assert asked.status == 202
        await restored.settle()
        shown = (await restored.ask("GET", f"{_VOLUMES}/{volume_id}")).key("volume")
        assert (shown["status"], shown["size"]) == ("available", 5)
        assert await restored.complaints() == []


async def test_a_backup_has_the_images_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    image = {"name": "i", "disk_format": "raw", "container_format": "bare"}
    async with SimulatedCloud(tmp_path / "state", hosts=()) as cloud:
        image_id = (await cloud.ask("POST", _IMAGES, image)).body["id"]
        path = f"{_IMAGES}/{image_id}/file"
        headers = {"content-type": "application/octet-stream"}
        assert (await cloud.ask("PUT", path, b"content", headers=headers)).status == 204
        said: list[str] = []
        await run_backup(cloud.settings, tmp_path / "copy", said.append)
    assert str(tmp_path / "copy") in said[0]
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o700
    async with SimulatedCloud(tmp_path / "copy", hosts=()) as restored:
        assert (await restored.ask("GET", path)).content == b"content"


async def test_a_backup_is_on_disk_with_its_name_before_anything_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, seen = tmp_path / "new" / "copy", list[str]()
    fsync, rename = os.fsync, Path.rename

    def note_fsync(descriptor: int) -> None:
        seen.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    def note_rename(path: Path, to: Path) -> Path:
        seen.append(f"{path} -> {to}")
        return rename(path, to)

    async with SimulatedCloud(tmp_path / "state") as cloud:
        with monkeypatch.context() as noted:
            noted.setattr(os, "fsync", note_fsync)
            noted.setattr(Path, "rename", note_rename)
            await run_backup(cloud.settings, target, lambda line: seen.append(f"said: {line}"))
    partial = target.with_name("copy.partial")
    at = seen.index(f"{partial} -> {target}")
    before, behind = seen[:at], seen[at + 1 :]
    copied = {str(partial / path.relative_to(target)) for path in target.rglob("*")}
    assert {*copied, str(partial)} <= set(before)
    assert {str(target.parent), str(tmp_path)} <= set(behind[:-1])
    assert behind[-1].startswith("said: ")


@pytest.mark.parametrize("broken", ["copy.partial/seal.key", "copy.partial", "."])
async def test_a_backup_that_does_not_get_to_disk_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    fsync, said = os.fsync, list[str]()

    def fail(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink() == tmp_path / broken:
            raise OSError(errno.EIO, "Input/output error")
        fsync(descriptor)

    async with SimulatedCloud(tmp_path / "state", hosts=()) as cloud:
        with monkeypatch.context() as failing:
            failing.setattr(os, "fsync", fail)
            with pytest.raises(Unavailable, match="Input/output error"):
                await run_backup(cloud.settings, tmp_path / "copy", said.append)
    assert said == []
    assert not (tmp_path / "copy").exists()
    assert not (tmp_path / "copy.partial").exists()


async def test_a_backup_into_a_directory_that_is_there_or_of_no_cloud_is_refused(
    tmp_path: Path,
) -> None:
    settings = Settings(state_dir=str(tmp_path / "state"))
    with pytest.raises(Invalid, match="no cloud"):
        await run_backup(settings, tmp_path / "copy", lambda _: None)
    (tmp_path / "there").mkdir()
    with pytest.raises(Invalid, match="there already"):
        await run_backup(settings, tmp_path / "there", lambda _: None)
    assert not (tmp_path / "copy").exists()


async def test_a_backup_that_has_no_place_says_that_the_cloud_is_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "seal.key").write_bytes(b"k" * 32)
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match=r"Nothing was copied to .*Not a directory.* as it was"):
        await run_backup(Settings(state_dir=str(tmp_path)), tmp_path / "file" / "x", lambda _: None)
