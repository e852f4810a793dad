"""What tests of the agent share: a journal, an image to make volumes from, a share of NFS."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from mooring.agent.connections import Connections
from mooring.agent.drivers.base import SourceImage
from mooring.agent.fitting import Fitting
from mooring.agent.mounts import Mounts
from mooring.agent.qemu_img import QemuImg
from mooring.agent.run import Runner
from mooring.agent.sources import FileSource
from mooring.fence.journal import Journal
from tests.agent.ceph_cluster import CephCluster, open_cluster
from tests.agent.remote_pools import CONTENT
from tests.agent.shares import Shares


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


@pytest.fixture
def shares(tmp_path: Path) -> Shares:
    """A server of NFS with two volumes."""
    made = Shares(tmp_path / "nfs")
    (made.export() / "volume-v1").write_bytes(b"data")
    (made.export() / "volume-v2").write_bytes(b"data")
    return made


@pytest.fixture
async def mounts(shares: Shares, journal: Journal) -> AsyncGenerator[Mounts]:
    """The mounts of a host that reaches it."""
    made = shares.mounts(journal)
    yield made
    await made.close()


@pytest.fixture
def connections(mounts: Mounts, journal: Journal, tmp_path: Path) -> Connections:
    """The connections of that host."""
    made = Connections(
        tmp_path / "connections", mounts, Fitting(QemuImg(Runner(journal))), simulated=False
    )
    made.prepare()
    return made
