"""The setting `copy_mib_per_s` bounds what a host gives of its disks, however it was started."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from mooring import config
from mooring.agent.pace import Pace
from tests.agent.copying import stop_a_guest
from tests.agent.hosts import open_host, operation
from tests.agent.starts import STARTS, Start

pytestmark = pytest.mark.anyio
PIECES = 4
"""Of one MiB each."""


class Watch:
    """A clock that stands still but for who rests."""

    def __init__(self) -> None:
        self.now = 100.0

    async def rest(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """The clock by which the doors of all hosts of this process give."""
    made = Watch()
    paced = partial(Pace, now=lambda: made.now, rest=made.rest)
    monkeypatch.setattr("mooring.agent.door.Pace", paced)
    return made


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(("mib_per_s", "least_s"), [(2, 1.5), (1, 3.0), (0, 0.0)])
async def test_a_disk_is_given_as_fast_as_the_setting_says(
    start: Start, mib_per_s: int, least_s: float, tmp_path: Path, watch: Watch
) -> None:
    variables = {
        "MOORING_STATE_DIR": str(tmp_path / "a"),
        "MOORING_HYPERVISOR": "simulated",
        "MOORING_COPY_MIB_PER_S": str(mib_per_s),
    }
    settings = config.load(environment=variables)
    async with start(settings) as (here, directory), open_host(tmp_path / "b") as (there, _):
        server_id = await stop_a_guest(here, directory, PIECES)
        offer = await here.put_offer(server_id, operation=operation())
        before = watch.now
        await there.client.put_copy(server_id, offer, operation=operation())
        # The end of the disk may have to wait for the last piece, too.
        most_s = least_s * PIECES / (PIECES - 1)
        assert least_s <= watch.now - before <= most_s
