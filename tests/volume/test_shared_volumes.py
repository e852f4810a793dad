"""Volumes that several servers may have (multiattach) are raw files, whatever their pool's are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.volume.movers import FAR, FAST, SLOW, Movers
from tests.volume.test_retyping import make_type

pytestmark = pytest.mark.anyio
SHARED = "shared"


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[Movers]:
    async with Movers(tmp_path, database) as opened:
        await make_type(opened, SHARED, multiattach="<is> True")
        yield opened


async def look(cloud: Movers, volume_id: str) -> tuple[str, bool, str, str]:
    """Return a volume's status, whether servers may share it, its pool, and its file's format."""
    shown = await cloud.show(volume_id)
    backend = shown["os-vol-host-attr:host"]
    found = await cloud.pool(backend).find(volume_id)
    assert found is not None
    return shown["status"], shown["multiattach"], backend, found.format


async def test_it_stays_raw_in_every_pool_that_it_comes_to(cloud: Movers) -> None:
    shared, plain = await cloud.make(volume_type=SHARED), await cloud.make()
    assert await look(cloud, shared) == ("available", True, SLOW, "raw")
    assert await look(cloud, plain) == ("available", False, SLOW, "qcow2")
    for backend in (FAST, FAR, SLOW):
        for volume_id in (shared, plain):
            assert (await cloud.migrate(volume_id, backend)).status == 202
            await cloud.settle()
        assert await look(cloud, shared) == ("available", True, backend, "raw")
        assert await look(cloud, plain) == ("available", False, backend, "qcow2")
