"""Files of guests that cannot be removed: the same on both hypervisors."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.agent.settings import HypervisorKind
from mooring.errors import Unavailable
from tests.agent.hosts import TestHost, new_id

pytestmark = pytest.mark.anyio


async def test_a_server_whose_files_cannot_be_removed_is_not_called_gone(
    host: TestHost, kind: HypervisorKind, state_dirs: dict[str, Path], tmp_path: Path
) -> None:
    server_id = new_id()
    await host.boot(server_id)
    own = state_dirs[kind] / "guests" / server_id
    own.mkdir(exist_ok=True)
    # A link is nothing whose content is removed.
    aside = tmp_path / "aside"
    own.rename(aside)
    own.symlink_to(aside)
    for _ in range(2):
        with pytest.raises(Unavailable, match="could be removed"):
            await host.remove(server_id)
    own.unlink()
    aside.rename(own)
    await host.remove(server_id)
    assert (await host.client.inventory()).leftovers == []
