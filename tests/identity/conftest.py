from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.identity.town import Town, found


@pytest.fixture
async def town(tmp_path: Path) -> AsyncGenerator[Town]:
    place = await found(tmp_path)
    yield place
    await place.identity.store.close()
