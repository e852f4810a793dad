"""A server whose volume is gone: the doctor says how the server comes to know of it."""

from __future__ import annotations

import pytest

from mooring.doctor.examine import look
from tests.compute.cloud import ComputeCloud

pytestmark = pytest.mark.anyio


async def test_a_hard_reboot_forgets_a_volume_that_is_gone(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_attached()
    freed = {"os-reset_status": {"status": "available", "attach_status": "detached"}}
    await cloud.volume_api("POST", f"/volumes/{volume_id}/action", freed, user="admin")
    await cloud.settle()
    await cloud.volume_api("DELETE", f"/volumes/{volume_id}")
    await cloud.settle()
    findings = await look(cloud.every_store(), cloud.known_agents, cloud.clock, cloud.settings)
    (advice,) = {one.advice for one in findings if one.resource == f"server {server_id}"}
    assert "--hard" in advice
    assert await cloud.act(server_id, "reboot", {"type": "HARD"}) == 202
    await cloud.settle()
    assert await cloud.disks(server_id) == []
    assert await cloud.complaints() == []
