"""A control plane whose database is away for a while goes on when it is there again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kill.harness import KilledCloud, running
from tests.wire import Wire, at_word

pytestmark = [pytest.mark.kill, pytest.mark.postgres]
VOLUMES = "/volume/v3/volumes"
BEGUN_AGAIN = b"a loop begins again"
FAILS = 4


def test_a_control_plane_outlives_its_database(
    tmp_path: Path, wired_url: str, postgres_wire: Wire
) -> None:
    with running(tmp_path / "cloud", wired_url) as cloud:
        begun = begin(cloud)
        postgres_wire.rule = at_word(b"", "before", times=1_000_000)
        log = cloud.directory / "control.log"
        cloud.until(
            lambda: cloud.control.is_dead() or log.read_bytes().count(BEGUN_AGAIN) >= FAILS,
            "the loops of services meet the trouble",
        )
        assert not cloud.control.is_dead(), log.read_text()[-2000:]
        assert cloud.ask("GET", f"{VOLUMES}/{begun}").status == 503
        postgres_wire.rule = at_word(b"", "", times=0)
        cloud.until(lambda: cloud.ask("GET", f"{VOLUMES}/{begun}").status == 200, "it answers")
        cloud.settle()
        # Where it was away for so long that nobody knew the pools any more, that is said.
        assert status_of(cloud, begun) in {"available", "error"}
        cloud.until(lambda: is_made(cloud), "volumes are made")
        assert cloud.findings() == []


def begin(cloud: KilledCloud) -> str:
    """Ask for a volume and return its id."""
    return cloud.ask("POST", VOLUMES, {"volume": {"size": 1}}).body["volume"]["id"]


def is_made(cloud: KilledCloud) -> bool:
    """Whether a volume that is asked for now is made."""
    made = begin(cloud)
    cloud.settle()
    return status_of(cloud, made) == "available"


def status_of(cloud: KilledCloud, volume: str) -> str:
    """Return a volume's status."""
    return cloud.ask("GET", f"{VOLUMES}/{volume}").body["volume"]["status"]
