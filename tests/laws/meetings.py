"""Which operations of two services can meet, by what they stand on and lock.

Each saga locks things of its own service, so two of two services meet where what the one asks of
the other service wants a lock that somebody there has.
"""

from __future__ import annotations

from functools import cache, partial

from msgspec.structs import replace

from tests.laws.move_scenarios import a_server_that_moves
from tests.laws.scenarios import SCENARIOS
from tests.laws.sites import FIFTH, THIRD, Do, Scenario
from tests.laws.volume_snapshot_scenarios import a_snapshot

_SERVER = "server volume"
_THERE = (THIRD, FIFTH)
"""Where a server may go that moves: one that is refused has another host to try."""


def service_of(scenario: Scenario) -> str:
    """Return the name of the service whose saga it is."""
    return scenario.saga.name.partition(".")[0]


def find_meetings() -> list[tuple[Scenario, Scenario]]:
    """Return every two operations of two services that can meet, each way round.

    Of scenarios with the same request one is enough: it is made where the first one stands.
    """
    found: list[tuple[Scenario, Scenario]] = []
    moved: set[tuple[Do, Do, Do]] = set()
    for first in SCENARIOS:
        asked: list[Do] = []
        for second in SCENARIOS:
            if service_of(first) == service_of(second) or second.act in asked:
                continue
            ground = furnish(first, second)
            if ground is None:
                continue
            moves = second.wants is not None and second.wants.moves
            if moves and ground.arrange is not first.arrange:
                # Two that did the same on other grounds are one here.
                same = ground.act, ground.arrange, second.act
                if same in moved:
                    continue
                moved.add(same)
            asked.append(second.act)
            found.append((ground, second))
    return found


def furnish(first: Scenario, second: Scenario) -> Scenario | None:
    """Return the first on ground where the second can be asked for; None where they cannot meet.

    Of one that is left out nothing is known. Where the second speaks of a snapshot, one is made of
    the volume that stands there; where it moves a server, the server is one that can.
    """
    wants, others = first.wants, second.wants
    if wants is None or others is None:
        return None
    if others.can_meet(wants):
        return first
    if wants.waits or wants.bare:
        # No snapshot is taken of a volume that waits, and no server moves that is away.
        return None
    with_snapshot = replace(wants, stands=f"{wants.stands} snapshot")
    if "volume" in wants.stands and others.can_meet(with_snapshot):
        named = f"{first.name} with a snapshot"
        return replace(first, name=named, arrange=_with_snapshot(first.arrange))
    if others.moves and wants.stands in {_SERVER, f"{_SERVER} snapshot"}:
        pictured = wants.stands != _SERVER
        arrange = _with_snapshot(a_server_that_moves) if pictured else a_server_that_moves
        return replace(first, name=f"{first.name} that moves", arrange=arrange, hosts=_THERE)
    return None


@cache
def _with_snapshot(arrange: Do) -> Do:
    return partial(a_snapshot, of=arrange)
