"""What tests of the agent share: a journal, and an image to make volumes from."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from mooring.agent.drivers.base import SourceImage
from mooring.agent.sources import FileSource
from mooring.fence.journal import Journal
from tests.agent.ceph_cluster import CephCluster, open_cluster
from tests.agent.remote_pools import CONTENT


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncGenerator[Journal]:
    made = Journal(tmp_path / "journal.sqlite")
    yield made
    await made.close()


@pytest.fixture(scope="session")
def ceph_cluster() -> Generator[CephCluster]:
    """A Ceph of one node, for all tests of a session."""
    with open_cluster() as cluster:
        yield cluster


@pytest.fixture
def image(tmp_path: Path) -> SourceImage:
    """A raw image that has `CONTENT`."""
    file = tmp_path / "image"
    file.write_bytes(CONTENT)
    return SourceImage("i1", FileSource(str(file), "raw"), len(CONTENT))
