"""Which host has a guest whose move nobody saw the end of: the table of the design."""

from __future__ import annotations

import pytest

from mooring.compute.moves.keeper import Seen, Side, find_keeper

TABLE: list[tuple[Seen, Seen, Side]] = [
    ("running", "absent", "source"),
    ("running", "prelaunched", "source"),
    ("running", "lost", "source"),
    ("migrated", "running", "destination"),
    ("absent", "running", "destination"),
    ("paused", "running", "destination"),
    ("lost", "running", "destination"),
    ("paused", "paused", "destination"),
    ("migrated", "paused", "destination"),
    ("paused", "prelaunched", "source"),
    ("paused", "absent", "source"),
    ("stopped", "absent", "source"),
    ("crashed", "prelaunched", "source"),
    ("migrated", "stopped", "destination"),
    ("stopped", "crashed", "destination"),
    ("migrated", "lost", "destination"),
    ("lost", "absent", "source"),
    ("migrated", "absent", "nobody"),
    ("absent", "prelaunched", "nobody"),
]


@pytest.mark.parametrize(("source", "destination", "side"), TABLE)
def test_both_hosts_tell_who_has_the_guest(source: Seen, destination: Seen, side: Side) -> None:
    assert find_keeper(source, destination) == side
