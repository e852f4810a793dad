"""An agent that is killed in the middle of a verb about a share: the next one ends it right."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mooring.agent_api.client import AgentClient
from mooring.agent_api.shares import AccessRule, ShareSnapshotName, ShareSpec
from mooring.errors import Unavailable
from mooring.fence.operation import Operation
from tests.agent.hosts import new_id, operation
from tests.agent.processes import agent_process

pytestmark = [pytest.mark.anyio, pytest.mark.kill]
Verb = Callable[[AgentClient, Operation], Awaitable[Any]]
RULE = AccessRule(pool="shared", type="ip", to="10.9.0.1")


@pytest.fixture(params=["simulated", "directory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The file of a host with one pool of shares."""
    file = tmp_path / "storage.toml"
    file.write_text(f'[[share_pools]]\nname = "shared"\ndriver = "{request.param}"\n')
    return str(file)


async def killed_in(state_dir: Path, storage: str, verb: str, act: Verb) -> Any:
    """Ask for a verb, killing its agent before and after it acts; return the last's answer."""
    named = operation()
    for point in ("begin", "acted"):
        kill_at = f"agent/{verb}/{point}"
        async with agent_process(state_dir, "simulated", kill_at, storage) as agent:
            with pytest.raises(Unavailable):
                await act(agent.client, named)
            await agent.died()
    async with agent_process(state_dir, "simulated", "", storage) as agent:
        return await act(agent.client, named)


async def test_verbs_end_right_wherever_their_agent_was_killed(
    tmp_path: Path, storage: str
) -> None:
    share_id, rule_id, snapshot_id, other_id = (new_id() for _ in range(4))
    state_dir = tmp_path / "state"
    killed = partial(killed_in, state_dir, storage)
    body = ShareSpec(pool="shared", protocol="NFS", size_gb=1)
    made = await killed("put_share", lambda c, o: c.put_share(share_id, body, operation=o))
    assert len(made.exports) == 1
    await killed("grant_access", lambda c, o: c.grant_access(share_id, rule_id, RULE, operation=o))
    grown = await killed(
        "resize_share", lambda c, o: c.resize_share(share_id, "shared", 2, operation=o)
    )
    assert grown.size_gb == 2
    async with agent_process(state_dir, "simulated", "", storage) as agent:
        [pool] = (await agent.client.host()).share_pools
    if pool.snapshots:
        await killed(
            "put_share_snapshot",
            lambda c, o: c.put_share_snapshot(share_id, snapshot_id, "shared", operation=o),
        )
        source = ShareSnapshotName(share_id, snapshot_id)
        copied = ShareSpec(pool="shared", protocol="NFS", size_gb=2, snapshot=source)
        await killed("put_share", lambda c, o: c.put_share(other_id, copied, operation=o))
    async with agent_process(state_dir, "simulated", "", storage) as agent:
        shown = await agent.client.show_share(share_id)
    assert shown is not None
    assert (shown.size_gb, [rule.rule_id for rule in shown.rules]) == (2, [rule_id])
    await killed(
        "delete_share_snapshot",
        lambda c, o: c.delete_share_snapshot(share_id, snapshot_id, "shared", operation=o),
    )
    await killed(
        "revoke_access", lambda c, o: c.revoke_access(share_id, rule_id, "shared", operation=o)
    )
    for each in (share_id, other_id):
        await killed("delete_share", lambda c, o, i=each: c.delete_share(i, "shared", operation=o))
    async with agent_process(state_dir, "simulated", "", storage) as agent:
        left = await agent.client.inventory()
    assert (left.shares, left.leftovers) == ([], [])
