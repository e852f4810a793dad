"""Databases that are migrated already: a test that is not about migrations copies their files.

The revisions run once in a process, as at a first start. A copy costs a hundredth of it.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from mooring.probe import Probe
from mooring.services import SERVICES
from mooring.store import base, migrate, sqlite
from mooring.store.base import Store


@cache
def migrated_file(service: str) -> bytes:
    """Return what the file of a new database holds once its first start is over."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / f"{service}.sqlite"
        engines = sqlite.create_engines(path)
        migrate.upgrade(engines[0], service)
        for engine in engines:
            engine.dispose()
        return path.read_bytes()


def lay_databases(directory: Path | str, *services: str) -> None:
    """Put the file of each service, or of all, where there is none yet."""
    Path(directory).mkdir(parents=True, exist_ok=True)
    for service in services or [each.name for each in SERVICES]:
        path = Path(directory) / f"{service}.sqlite"
        if not path.exists():
            path.write_bytes(migrated_file(service))


def files_of(directory: Path | str) -> dict[str, bytes]:
    """Return what the files right in a directory hold, by their names."""
    return {path.name: path.read_bytes() for path in Path(directory).iterdir() if path.is_file()}


async def open_store(
    location: str, service: str, *, probe: Probe | None = None, inline: bool = False
) -> Store:
    """Open a store as `mooring.store.base` does, whose file need not be migrated first."""
    if "://" not in location:
        lay_databases(location, service)
    return await base.open_store(location, service, probe=probe, inline=inline)
