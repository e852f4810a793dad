from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.identity.town import Town, enter, found


@pytest.fixture(scope="session")
def founded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Make the first users once; each test works on a copy."""
    directory = tmp_path_factory.mktemp("identity")
    return directory, asyncio.run(found(directory))


@pytest.fixture
async def town(founded: tuple[Path, dict[str, str]], tmp_path: Path) -> AsyncGenerator[Town]:
    directory, passwords = founded
    shutil.copytree(directory, tmp_path, dirs_exist_ok=True)
    identity = await enter(tmp_path)
    yield Town(identity, dict(passwords))
    await identity.store.close()
