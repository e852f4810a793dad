"""A host that is silent keeps neither the doctor nor who asks it waiting for long."""

from __future__ import annotations

import asyncio

import pytest

from mooring import doctor_command, host_command
from mooring.agent_api import client
from mooring.agent_api.transport import Forward, Request, Response
from mooring.clients.identity import Asked, ask
from mooring.clients.transport import Network
from mooring.clock import RealClock
from mooring.doctor import books
from mooring.doctor.examine import examine
from mooring.errors import Unavailable
from mooring.neighbour import Message, Receive, Send
from tests.cloud import URL, SimulatedCloud

pytestmark = pytest.mark.anyio


async def test_a_silent_host_is_named_after_two_short_looks(
    cloud: SimulatedCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    thawed = asyncio.Event()

    async def hold(request: Request, forward: Forward) -> Response:
        await thawed.wait()
        return await forward(request)

    monkeypatch.setattr(books, "DOCTOR_HOST_S", 0.1)
    monkeypatch.setattr(client, "HOST_HEARD_S", 0.0)
    cloud.deliver_to_host = hold
    async with asyncio.timeout(20):
        found = await examine(
            cloud.every_store(), cloud.known_agents, RealClock(), cloud.settings, between_s=0.0
        )
    thawed.set()
    (finding,) = found
    assert (finding.resource, finding.kind) == ("host h1", "host")
    assert finding.message == "it cannot be asked: It did not answer within 0.1 s."


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (doctor_command.DOCTOR, "The doctor did not answer within 300 s."),
        (host_command.CLOUD, "The cloud did not answer within 120 s."),
    ],
)
async def test_who_did_not_answer_is_named(of: Asked, said: str) -> None:
    async def silent(scope: Message, receive: Receive, send: Send) -> None:
        del scope, receive, send
        await asyncio.Event().wait()

    network = Network()
    network.serve(URL, silent)
    short = Asked(of.name, 0.05, of.silence)
    with pytest.raises(Unavailable) as caught:
        await ask(network, "GET", f"{URL}/mooring/doctor", {}, of=short)
    network.abandon()
    assert caught.value.public.startswith(said)
    await network.aclose()
