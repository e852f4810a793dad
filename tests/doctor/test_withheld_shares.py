"""A share that its host does not give away is named by the doctor, with why."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mooring.agent.share_drivers.simulated import SimulatedShares
from mooring.agent_api.shares import HostedShare
from tests.cloud import SimulatedCloud

pytestmark = pytest.mark.anyio
WHY = "The record /srv/.mooring/share-1.json is damaged."


async def test_a_share_that_its_host_does_not_give_away_is_named(
    cloud: SimulatedCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cloud.look_at_hosts()
    body = {"share": {"share_proto": "NFS", "size": 1}}
    made = await cloud.do("POST", "/share/v2/shares", body, version="2.82")
    assert made is not None
    share_id = made.key("share")["id"]
    await cloud.settle()
    told = SimulatedShares.shares

    async def shares(self: SimulatedShares) -> list[HostedShare]:
        # As of a damaged one: what else is said of it says nothing.
        return [replace(one, size_gb=0, exports=[], problem=WHY) for one in await told(self)]

    assert await cloud.complaints() == []
    with monkeypatch.context() as patched:
        patched.setattr(SimulatedShares, "shares", shares)
        assert await cloud.complaints() == [f"share {share_id}: on host h1: {WHY}"]
