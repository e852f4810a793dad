"""An evacuation that waits for the old guest's image says so, where people look."""

from __future__ import annotations

import pytest

from mooring.saga import operations
from tests.compute.moving import moving_server
from tests.compute.test_evacuation import HOSTS, OLD, is_there
from tests.compute.verifying import force_down
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
_SAID = "Switch that host off, then reboot the server hard. It is tried again."


async def test_it_says_that_the_old_guest_may_be_alive(keeper: Keeper, database: str) -> None:
    async with moving_server(keeper, hosts=HOSTS, database=database) as moving:
        cloud = moving.cloud
        await force_down(cloud, moving.source, down=True)
        path = f"/servers/{moving.server_id}"
        body = {"evacuate": {"host": moving.destination}}
        await cloud.ask("POST", f"{path}/action", body, user="admin", version=OLD)
        await cloud.pass_time(20.0)
        engine = cloud.compute.sagas
        [shown] = await cloud.stores["compute"].read(
            lambda tx: operations.list_operations(tx, engine)
        )
        assert shown.waits.endswith(_SAID)
        for user in ("admin", "member"):
            answer = await cloud.ask("GET", f"{path}/os-instance-actions", user=user)
            assert answer.body["instanceActions"][0]["message"] == shown.waits
        cloud.hypervisor(moving.source).crash(moving.server_id)
        await cloud.settle()
        await is_there(moving)
