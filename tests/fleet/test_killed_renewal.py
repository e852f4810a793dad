"""A host that is killed while its certificates are renewed has one set or the other, and goes on.

No operation asks for that (`tests/kill/agent_points.py`): an operator does, and the control plane
by itself.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Generator
from functools import partial
from pathlib import Path

import pytest

from mooring.agent.move_identity import LINK
from tests.fleet.test_commands import Site
from tests.waiting import until

pytestmark = pytest.mark.kill
MOMENTS = ["begin", "acted"]


@pytest.fixture
def site(tmp_path: Path) -> Generator[Site]:
    made = Site(tmp_path)
    yield made
    made.stop()


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_host_killed_while_it_is_certified_anew_is_certified_once_more(
    moment: str, site: Site
) -> None:
    site.start()
    agent = site.join(site.token(), kill_at=f"agent/put_certificate/{moment}")
    assert site.refusal("host", "renew", "h2", "--state-dir", str(site.state))
    assert agent.wait() == -signal.SIGKILL
    site.start_host("h2")
    assert "is certified until" in site.say("host", "renew", "h2")
    assert "joined" in site.say("host", "show", "h2")


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_host_killed_while_it_is_certified_for_moves_is_certified_once_more(
    moment: str, site: Site
) -> None:
    settings = site.directory / "agent.toml"
    settings.write_text("move_tls = true\n", "utf-8")
    wanted = ("--config", str(settings))
    site.start()
    site.join(site.token()).kill()
    agent = site.start_host("h2", *wanted, kill_at=f"agent/put_move_certificates/{moment}")
    # One that starts looks at all hosts that have joined.
    site.control.kill()
    site.start()
    assert agent.wait() == -signal.SIGKILL
    site.start_host("h2", *wanted)
    site.control.kill()
    site.start()
    asyncio.run(until(partial(is_certified, site), "the host is certified for moves"))


async def is_certified(site: Site) -> bool:
    return (site.directory / "h2" / LINK / "cacert.pem").exists()
