"""A stopped server whose volume's files its host cannot read is kept by nothing that needs them."""

from __future__ import annotations

import pytest

from tests.compute.test_assisted_snapshots import SNAPSHOT, Stage, stage

__all__ = ["stage"]
pytestmark = pytest.mark.anyio


async def test_a_stopped_server_whose_files_are_away_is_free_once_its_merge_is_given_up(
    stage: Stage,
) -> None:
    await stage.begin()
    await stage.create()
    await stage.cloud.settle()
    assert await stage.cloud.act(stage.server_id, "os-stop") == 202
    await stage.cloud.settle()
    stage.cloud.hypervisor().away.add(stage.volume_id)
    await stage.begin("deleting")
    assert (await stage.delete()).status == 204
    await stage.cloud.settle()
    assert stage.desk.statuses == {SNAPSHOT: "error_deleting"}
    await stage.cloud.look_at_hosts()
    assert await stage.cloud.act(stage.server_id, "os-start") == 202
    await stage.cloud.settle()
    assert (await stage.cloud.server(stage.server_id))["status"] == "ACTIVE"
