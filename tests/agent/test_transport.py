"""The same law on both ways to an agent: inside this process, and through its socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.agent_api.transport import InProcess, Request, UnixSocket, Wire
from mooring.errors import Unavailable
from tests.clients.test_transport import LATE_S, MIB, Kitchen, listening

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["near", "socket"])
async def wire(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Wire]:
    kitchen, path = Kitchen(), tmp_path / "agent.sock"
    if request.param == "near":
        yield InProcess(kitchen)
        return
    async with listening(kitchen, path):
        socket = UnixSocket(str(path))
        yield socket
        await socket.close()


async def test_an_answer_as_long_as_the_bound_is_read(wire: Wire) -> None:
    answer = await wire.send(Request("GET", "/feast", {}), LATE_S)
    assert (answer.status, len(answer.body)) == (200, 64 * MIB)


async def test_a_longer_answer_is_none(wire: Wire) -> None:
    with pytest.raises(Unavailable) as refusal:
        await wire.send(Request("GET", "/banquet", {}), LATE_S)
    assert f"longer than {64 * MIB} bytes" in refusal.value.private


async def test_an_answer_that_breaks_off_is_none(wire: Wire) -> None:
    with pytest.raises(Unavailable):
        await wire.send(Request("GET", "/torn", {}), LATE_S)
