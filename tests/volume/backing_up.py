"""What tests of backups ask for and look at, in a simulated cloud of all services."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from mooring.agent.drivers.simulated import SimulatedDriver
from mooring.volume.app import SERVICE
from mooring.volume.backups.stores.directory import DirectoryStore
from tests.answers import Answer
from tests.cloud import SimulatedCloud
from tests.volume.test_uploading import UNKNOWN, VOLUMES, act, captures, make_volume, messages
from tests.volume.test_uploading import status as status_of_volume

__all__ = ["UNKNOWN", "VOLUMES", "act", "captures", "make_volume", "messages"]
BACKUPS, SNAPSHOTS = "/volume/v3/backups", "/volume/v3/snapshots"


async def back_up(cloud: SimulatedCloud, volume_id: str, **fields: Any) -> Answer:
    body = {"backup": {"volume_id": volume_id, **fields}}
    return await cloud.ask("POST", BACKUPS, body, version="3.67")


async def begun(cloud: SimulatedCloud, volume_id: str, **fields: Any) -> str:
    """Begin a backup, and return its id."""
    return (await back_up(cloud, volume_id, **fields)).key("backup")["id"]


async def backup(cloud: SimulatedCloud, backup_id: str, **how: Any) -> dict[str, Any]:
    how = {"version": "3.67", **how}
    return (await cloud.ask("GET", f"{BACKUPS}/{backup_id}", **how)).key("backup")


async def restore(cloud: SimulatedCloud, backup_id: str, **fields: Any) -> Answer:
    return await cloud.ask("POST", f"{BACKUPS}/{backup_id}/restore", {"restore": fields})


async def snapshot_of(cloud: SimulatedCloud, volume_id: str) -> str:
    body = {"snapshot": {"volume_id": volume_id}}
    made = await cloud.ask("POST", "/volume/v3/snapshots", body, version="3.66")
    await cloud.settle()
    return made.key("snapshot")["id"]


async def status(cloud: SimulatedCloud, volume_id: str) -> str:
    return await status_of_volume(cloud, volume_id)


def storage(cloud: SimulatedCloud) -> SimulatedDriver:
    [driver] = cloud.agents["h1"].agent.drivers.values()
    assert isinstance(driver, SimulatedDriver)
    return driver


def images(cloud: SimulatedCloud) -> list[str]:
    """Return what the host has in its cache."""
    return [image.image_id for image in cloud.agents["h1"].agent.images.images()]


def the_store(cloud: SimulatedCloud) -> Path:
    return cloud.settings.state_path / "backups"


def stored(cloud: SimulatedCloud) -> list[str]:
    """Return the names of all that the store has."""
    return sorted(path.name for path in the_store(cloud).iterdir())


class HeldStore(DirectoryStore):
    """The store of a cloud, in which every piece waits until the test lets it in."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()

    async def put_piece(self, backup_id: str, sha256: str, data: bytes) -> None:
        self.reached.set()
        await self.go_on.wait()
        await super().put_piece(backup_id, sha256, data)


def hold_store(cloud: SimulatedCloud) -> HeldStore:
    held = cloud.cloud[SERVICE].backups = HeldStore(the_store(cloud))
    return held


def damage(cloud: SimulatedCloud, backup_id: str, how: str) -> None:
    """Do to the data of a backup what a disk may."""
    folder = the_store(cloud) / backup_id
    manifest = folder / "manifest.json"
    [piece, *_] = [path for path in folder.iterdir() if path != manifest]
    if how == "changed":
        data = bytearray(piece.read_bytes())
        data[len(data) // 2] ^= 1
        piece.write_bytes(data)
    elif how == "missing":
        piece.unlink()
    elif how == "manifest":
        manifest.write_text("{")
    else:
        manifest.unlink()
