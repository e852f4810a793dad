"""The host of `mooring up` does what its setting says: servers, volumes, shares, or some of it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from mooring import config
from mooring.agent_api.client import Agents
from mooring.config import Settings
from mooring.errors import Invalid
from mooring.up import host_names, open_hosts

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("role", ["compute", "volume", "share"])
async def test_a_host_has_the_roles_of_its_setting(role: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f'roles = ["{role}"]\nhypervisor = "simulated"\nstate_dir = "{tmp_path}"\n')
    settings, agents = config.load(file, environment={}), Agents()
    async with AsyncExitStack() as stack:
        await open_hosts(settings, agents, stack, lambda _: None)
        host = await agents[host_names(settings)[0]].host()
    assert bool(host.hypervisor) is (role == "compute")
    assert bool(host.pools) is (role == "volume")
    assert bool(host.share_pools) is (role == "share")


def test_a_host_without_a_role_or_with_an_unknown_one_is_refused() -> None:
    for roles in ("", "router"):
        with pytest.raises(Invalid, match="roles"):
            config.load(environment={"MOORING_ROLES": roles})
    assert Settings().roles == ("compute", "volume", "share")
