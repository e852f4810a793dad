from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from pathlib import Path

import pytest

from tests.volume.cloud import VolumeCloud
from tests.volume.s3_service import S3Service, open_s3


@pytest.fixture
async def cloud(tmp_path: Path, anyio_backend: str) -> AsyncIterator[VolumeCloud]:
    async with VolumeCloud(tmp_path) as opened:
        yield opened


@pytest.fixture
async def any_cloud(
    tmp_path: Path, database: str, anyio_backend: str
) -> AsyncIterator[VolumeCloud]:
    """The same, on each database."""
    async with VolumeCloud(tmp_path, database=database) as opened:
        yield opened


@pytest.fixture(scope="session")
def s3_service() -> Generator[S3Service]:
    """A service that speaks S3, for all tests of a session."""
    with open_s3() as service:
        yield service
