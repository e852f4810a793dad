"""The files of guests, without a hypervisor."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mooring.agent.guest_files import GuestFiles
from mooring.agent.qemu_img import QemuImg
from mooring.agent.run import Runner
from mooring.fence.journal import Journal

pytestmark = pytest.mark.anyio


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncGenerator[GuestFiles]:
    journal = Journal(tmp_path / "journal.sqlite")
    made = GuestFiles(tmp_path / "guests", QemuImg(Runner(journal)))
    made.prepare()
    yield made
    await journal.close()


async def test_files_of_a_guest_that_is_not_there_are_left_over(kept: GuestFiles) -> None:
    for name in ("one", "other"):
        (kept.directory / name).mkdir()
    assert kept.leftovers({"one", "other"}) == []
    assert kept.leftovers({"one"}) == [str(kept.directory / "other")]
    kept.remove("other")
    assert kept.leftovers({"one"}) == []
