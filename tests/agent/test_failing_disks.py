"""What a kernel says of failing storage is asked again, whichever verb hears of it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from mooring.agent.simulated import SimulatedHypervisor
from mooring.agent_api.servers import PowerRequest
from mooring.errors import Bug, MooringError, Unavailable
from tests.agent.hosts import new_id, open_host, operation

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EIO, Unavailable),
        (errno.ESTALE, Unavailable),
        (errno.ENOTCONN, Unavailable),
        (errno.ENOENT, Bug),
        (errno.EBADF, Bug),
    ],
)
async def test_a_failing_device_is_no_mistake_of_ours_and_a_missing_file_may_be(
    tmp_path: Path, number: int, kind: type[MooringError]
) -> None:
    async with open_host(tmp_path) as (host, running):
        server_id, hypervisor = new_id(), running.agent.hypervisor
        await host.boot(server_id)
        assert isinstance(hypervisor, SimulatedHypervisor)
        hypervisor.knobs.fail("pause", OSError(number, "it failed"))
        pause = PowerRequest(state="pause")
        with pytest.raises(kind):
            await host.client.set_power(server_id, pause, operation=operation())
        await host.client.set_power(server_id, pause, operation=operation())
