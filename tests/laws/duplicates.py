"""What users make of volumes at random: clones, backups and images, and volumes of these again."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from tests.laws import backup_scenarios, basics
from tests.laws import volume_snapshot_scenarios as snapshots
from tests.laws.sites import COMPUTE, IMAGE, VOLUME, Site

_COPY = "copy"
_PICTURE = {"image_name": _COPY, "disk_format": "qcow2", "container_format": "bare"}
"""Of a raw one all of a volume would be sent, and summed up."""
Act = Callable[[], Coroutine[Any, Any, Any]]


def of_copies(chance: random.Random, there: Site, volume: str) -> list[Act]:
    """Return what copies a volume, and what becomes of copies."""
    of = Site.beside(there, volume=there.names[volume])
    lose = partial(_lose, chance, there)
    return [
        *[lambda: clone(of)] * 2,
        *[lambda: back_up(of)] * 2,
        lambda: backup_scenarios.back_up(of, incremental=True, force=True),
        *[lambda: _restore(chance, of, volume_id="{volume}")] * 2,
        lambda: _restore(chance, of, name=_COPY),
        *[lambda: upload(of)] * 2,
        lambda: snapshots.take_snapshot(of),
        lambda: _copy_snapshot(chance, of),
        *[lambda: lose(f"{VOLUME}/snapshots", "new")] * 2,
        lambda: lose(f"{VOLUME}/volumes", _COPY),
        lambda: lose(f"{VOLUME}/backups", "new"),
        lambda: lose(f"{IMAGE}/images", _COPY),
        lambda: _attach_copy(chance, there),
    ]


async def clone(site: Site) -> Any:
    """Make a volume of one that nobody has."""
    return await snapshots.clone_volume(site)


async def back_up(site: Site) -> Any:
    """Back up a volume, whoever has it."""
    return await backup_scenarios.back_up(site, force=True)


async def upload(site: Site) -> Any:
    """Make an image of a volume that nobody has."""
    return await basics.act_on_volume(site, "os-volume_upload_image", _PICTURE)


async def _restore(chance: random.Random, site: Site, **fields: str) -> Any:
    """Write a backup to a volume, or make one of it, if there is a backup."""
    found = await _find(chance, site, f"{VOLUME}/backups", "new")
    if found is None:
        return None
    return await backup_scenarios.restore(Site.beside(site, backup=found), **fields)


async def _copy_snapshot(chance: random.Random, site: Site) -> Any:
    """Make a volume of a snapshot, whoever has the volume that it was taken of, if there is one."""
    found = await _find(chance, site, f"{VOLUME}/snapshots", "new")
    if found is None:
        return None
    return await snapshots.copy_snapshot(Site.beside(site, snapshot=found))


async def _attach_copy(chance: random.Random, site: Site) -> Any:
    """Give a server a copy, if there is one."""
    found = await _find(chance, site, f"{VOLUME}/volumes", _COPY)
    if found is None:
        return None
    body = {"volumeAttachment": {"volumeId": found}}
    path = f"{COMPUTE}/servers/{{server}}/os-volume_attachments"
    return await site.ask("POST", path, body)


async def _lose(chance: random.Random, site: Site, where: str, name: str) -> Any:
    """Delete one of those that were made here, if there is one."""
    found = await _find(chance, site, where, name)
    return None if found is None else await site.ask("DELETE", f"{where}/{found}")


async def _find(chance: random.Random, site: Site, where: str, name: str) -> str | None:
    """Return the id of one that is listed by such a name."""
    listed = await site.ask("GET", where)
    if listed is None or listed.status != 200:
        return None
    made = [one["id"] for one in listed.key(where.rpartition("/")[2]) if one["name"] == name]
    return chance.choice(made) if made else None
