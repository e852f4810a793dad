"""A server whose evacuation failed elsewhere is not passed over, as long as it is in ERROR."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mooring import typed
from mooring.compute.hosts.drain_views import Drain, Left
from mooring.errors import Conflict
from mooring.host_command import exit_code, progress
from tests.compute.cloud import ComputeCloud
from tests.compute.test_host_evacuation import DEAD, die, evacuate, follow, make

pytestmark = pytest.mark.anyio
_LATE = "compute.evacuate/owe_guest/forward/before"


@pytest.fixture
async def cloud(tmp_path: Path, database: str) -> AsyncGenerator[ComputeCloud]:
    async with ComputeCloud(tmp_path, hosts=("host1", "host2", DEAD), database=database) as opened:
        opened.fence.ends = opened.end_host
        yield opened


async def test_one_that_failed_after_it_left_is_named_until_it_runs(cloud: ComputeCloud) -> None:
    made = await make(cloud)
    await die(cloud)
    cloud.probe.arm(_LATE, lambda: Conflict("It will not go."))
    await evacuate(cloud)
    shown = typed.convert(await follow(cloud), Drain)
    host = (await cloud.server(made))["OS-EXT-SRV-ATTR:host"]
    assert (shown.status, shown.moved, shown.left) == ("drained", 0, [])
    assert [(one.id, one.name) for one in shown.failed] == [(made, "s")]
    reason = shown.failed[0].reason
    assert reason.startswith(f"It is in ERROR on {host}. The server is on host {host}"), reason
    assert reason.endswith(" It will not go."), reason
    assert progress(shown).endswith("0 staying, 1 failed")
    assert exit_code(shown) == 1
    rebuilt = await cloud.act(made, "rebuild", {"imageRef": cloud.image_id})
    assert rebuilt == 202
    await cloud.settle()
    assert (await cloud.server(made))["status"] == "ACTIVE"
    mended = typed.convert((await evacuate(cloud, "GET")).body, Drain)
    assert (mended.failed, exit_code(mended)) == ([], 0)


@pytest.mark.parametrize(
    ("status", "left", "code"),
    [("draining", 0, 1), ("stopped", 0, 1), ("drained", 1, 1), ("drained", 0, 0)],
)
def test_a_look_ends_with_0_only_when_no_server_is_left(status: str, left: int, code: int) -> None:
    stays = [Left("1", "s", "It is suspended.")] * left
    found = Drain(
        host="h", status=status, moved=1, left=stays, started_at=datetime(2026, 1, 1, tzinfo=UTC)
    )
    assert exit_code(found) == code
