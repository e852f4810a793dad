"""A host with real guests that joined has certificates for moves by itself, or is named."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from mooring.agent.move_identity import LINK
from mooring.agent.waiting import until
from tests.agent.hosts import why_no_real_guests
from tests.fleet.test_commands import Site

pytestmark = [pytest.mark.anyio, pytest.mark.hosts, pytest.mark.kill]
REAL = ("--hypervisor", "libvirt")
CLEAR = "Running guests of host h2 come and go in the clear, as its setting move_tls is false."
PATIENCE_S = 60.0


@pytest.fixture
def site(tmp_path: Path) -> Generator[Site]:
    if reason := why_no_real_guests():
        pytest.skip(reason)
    made = Site(tmp_path)
    yield made
    made.stop()


async def test_a_host_that_joined_encrypts_moves_or_is_named(site: Site) -> None:
    site.start()
    agent = site.start_host("h2", "--join", site.token(), "--address", "127.0.0.1:0", *REAL)
    # The control plane brings them when it starts, and every five minutes.
    site.control.kill()
    site.start()
    moves = site.directory / "h2" / LINK
    assert await until((moves / "servercert.pem").exists, PATIENCE_S)
    assert "in the clear" not in site.say("host", "list")
    assert "in the clear" not in (site.directory / "h2.log").read_text("utf-8")
    agent.kill()
    settings = site.directory / "h2.toml"
    settings.write_text("move_tls = false\n", "utf-8")
    site.start_host("h2", "--config", str(settings), "--address", agent.ready, *REAL)
    assert "come and go in the clear" in (site.directory / "h2.log").read_text("utf-8")
    site.control.kill()
    site.start()
    assert await until(lambda: CLEAR in site.say("host", "list"), PATIENCE_S)
    assert "in the clear, as its setting move_tls is false" in site.say("host", "show", "h2")
