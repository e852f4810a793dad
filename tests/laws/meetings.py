"""What operations stand on and lock, and so which of two services can meet.

Each saga locks things of its own service, so two of two services meet where what the one asks of
the other service wants a lock that somebody there has.
"""

from __future__ import annotations

from functools import cache, partial

from msgspec import Struct
from msgspec.structs import replace

from tests.laws.move_scenarios import a_server_that_moves
from tests.laws.scenarios import SCENARIOS
from tests.laws.sites import FIFTH, THIRD, Do, Scenario
from tests.laws.volume_snapshot_scenarios import a_snapshot


class Wants(Struct, frozen=True):
    """Names of things, with spaces between them."""

    stands: str
    """What stands when the scenario begins."""
    locks: str
    """What of it all the sagas lock that the scenario starts, in whatever service."""
    needs: str = ""
    """What its request names beside that."""
    moves: bool = False
    """Whether it wants a server that can go to another host."""
    waits: bool = False
    """Whether its server was put away, and its volumes wait with it."""
    bare: bool = False
    """Whether it is refused where its volume has a snapshot."""

    def can_meet(self, first: Wants) -> bool:
        """Whether this one can be asked for where the first one is, and wants one lock with it."""
        needs = {*self.locks.split(), *self.needs.split()}
        stands = needs <= {*first.stands.split()} and (first.waits or not self.waits)
        return stands and not self.shares_no_lock(first)

    def shares_no_lock(self, other: Wants) -> bool:
        """Whether neither can be in the other one's way."""
        return {*self.locks.split()}.isdisjoint(other.locks.split())


_SERVER, _BOTH = "server volume", "server volume"
_BOOTED = "server volume root new_image"
_MOVING = "server volume data"
_LOCAL = "server data"
_THERE = (THIRD, FIFTH)
"""Where a server may go that moves: one that is refused has another host to try."""
WANTS = {
    "attach": Wants(_SERVER, _BOTH),
    "detach": Wants(_SERVER, _BOTH),
    "detach badly": Wants(_SERVER, _BOTH),
    "swap": Wants("server volume spare", "server volume spare"),
    "swap for a larger one": Wants("server volume spare", "server volume spare"),
    "create from image": Wants("", ""),
    "create in a group": Wants("group", ""),
    "create from volume": Wants("volume", "volume"),
    "create elsewhere": Wants("server group volume", "volume"),
    "create with new volumes": Wants("", ""),
    "delete server": Wants("server volume temporary", "server temporary", "server"),
    "stop": Wants(_SERVER, "server"),
    "start": Wants(_SERVER, "server"),
    "reboot": Wants(_SERVER, "server"),
    "hard reboot": Wants(_SERVER, "server"),
    "insist on reboot": Wants(_SERVER, "server"),
    "pause": Wants(_SERVER, "server"),
    "unpause": Wants(_SERVER, "server"),
    "suspend": Wants(_SERVER, "server"),
    "resume": Wants(_SERVER, "server"),
    "rescue": Wants(_SERVER, "server"),
    "rescue one that is off": Wants(_SERVER, "server"),
    "rescue with a share": Wants("server share", "server"),
    "unrescue": Wants(_SERVER, "server"),
    "unrescue with a share": Wants("server share", "server"),
    "make image": Wants("server", "server"),
    "make image of one that is off": Wants("server", "server"),
    "make backup": Wants("server", "server"),
    "make image of volumes": Wants(_BOOTED, "server volume root"),
    "create from a picture": Wants(f"{_BOOTED} picture", "volume root", "picture"),
    "reset state": Wants("server", "server"),
    "reset a deleted server": Wants(_SERVER, "server"),
    "create with a drive": Wants("", ""),
    "start with a drive": Wants("server", "server"),
    "hard reboot with a drive": Wants("server", "server"),
    "rebuild with a drive": Wants("server", "server"),
    "delete with a drive": Wants("server", "server"),
    "create volume": Wants("", ""),
    "create volume from image": Wants("", ""),
    "create volume for a server": Wants("", ""),
    "delete volume": Wants("volume", "volume"),
    "force-delete volume": Wants("volume", "volume"),
    "reset status": Wants("attachment volume", "volume"),
    "connect": Wants("attachment volume", "attachment volume"),
    "reserve connected": Wants("volume", "volume"),
    "delete attachment": Wants("attachment volume", "attachment"),
    "connect legacy": Wants("volume", "volume"),
    "terminate legacy": Wants("volume", ""),
    "extend": Wants("volume", "volume"),
    "extend stopped": Wants(_SERVER, _BOTH),
    "reset extending": Wants("volume", "volume"),
    "reset deleting": Wants("volume", "volume"),
    "insist on stop": Wants(_SERVER, _BOTH),
    "reimage": Wants("volume", "volume"),
    "reimage a reserved one": Wants("attachment volume", "volume"),
    "rebuild": Wants(_SERVER, _BOTH),
    "rebuild a volume": Wants(_BOOTED, "server volume root", "new_image"),
    "rebuild and keep the volume": Wants(_BOOTED, "server volume root", "new_image"),
    "tell the size": Wants(_SERVER, _BOTH),
    "grow under a guest": Wants(_SERVER, _BOTH),
    "extend under a guest": Wants(_SERVER, _BOTH),
    "live migration": Wants(_MOVING, _MOVING, moves=True),
    "cold migration": Wants(_MOVING, _MOVING, moves=True),
    "cold migration in vain": Wants(_MOVING, _MOVING, moves=True),
    "evacuation": Wants(_MOVING, _MOVING),
    "shelve": Wants(_MOVING, _MOVING),
    "unshelve": Wants(_MOVING, _MOVING, waits=True),
    "attach while away": Wants(f"{_MOVING} spare", "server spare", waits=True),
    "detach while away": Wants(_MOVING, "server data", waits=True),
    "shelve a disk": Wants(_LOCAL, _LOCAL),
    "shelve a disk at once": Wants(_LOCAL, _LOCAL),
    "offload": Wants(_LOCAL, _LOCAL),
    "unshelve a disk": Wants(_LOCAL, _LOCAL, waits=True),
    "unshelve here": Wants(_LOCAL, "server"),
    "delete one whose disk is away": Wants(_LOCAL, "server"),
    "reset a shelved server": Wants(_LOCAL, "server"),
    "local evacuation": Wants(_LOCAL, _LOCAL),
    "resize": Wants(_MOVING, _MOVING, moves=True),
    "confirm": Wants(f"{_MOVING} later", _MOVING, "later"),
    "delete a moved server": Wants(f"{_MOVING} later", "server", "later"),
    "revert": Wants(f"{_MOVING} later", f"{_MOVING} later"),
    "live migration in vain": Wants(_MOVING, _MOVING, moves=True),
    "block migration": Wants(_LOCAL, _LOCAL),
    "block migration in vain": Wants(_LOCAL, _LOCAL),
    "local migration": Wants(_LOCAL, _LOCAL),
    "local migration in vain": Wants(_LOCAL, _LOCAL),
    "local resize": Wants(_LOCAL, _LOCAL),
    "local resize in vain": Wants(_LOCAL, _LOCAL),
    "local confirm": Wants(_LOCAL, _LOCAL),
    "local revert": Wants(_LOCAL, _LOCAL),
    "delete two disks": Wants(_LOCAL, "server"),
    "confirm growth": Wants(_LOCAL, "server"),
    "revert growth": Wants(_LOCAL, "server"),
    "delete a grown disk": Wants(_LOCAL, "server"),
    "take snapshot": Wants("volume", "volume"),
    "take snapshot in use": Wants(_SERVER, _BOTH),
    "delete snapshot": Wants("volume snapshot", "volume", "snapshot"),
    "delete snapshot in use": Wants("server volume snapshot", _BOTH, "snapshot"),
    "await a busy server": Wants("server volume snapshot", _BOTH, "snapshot"),
    "clone volume": Wants("volume", "volume"),
    "upload volume": Wants("volume", "volume"),
    "migrate volume": Wants("volume", "volume", "store", bare=True),
    "migrate volume in use": Wants(_SERVER, _BOTH, "store", bare=True),
    "let a guest go on with a copy": Wants(_SERVER, _BOTH, "store", bare=True),
    "upload volume with a snapshot": Wants("volume snapshot", "volume"),
    "revert volume": Wants("volume snapshot", "volume", "snapshot"),
    "copy snapshot": Wants("volume snapshot", "volume", "snapshot"),
    "create backup": Wants("volume", "volume"),
    "create incremental backup": Wants("volume backup", "volume"),
    "create backup of a snapshot": Wants("volume snapshot", "volume", "snapshot"),
    "create backup in use": Wants(_SERVER, _BOTH),
    "store backup": Wants("volume snapshot", "volume", "snapshot"),
    "delete backup": Wants("volume backup", "backup"),
    "restore backup": Wants("volume backup", "volume backup"),
    "restore to a new volume": Wants("volume backup", "backup"),
    "attach share": Wants("server share", "server share"),
    "detach share": Wants("server share", "server share"),
    "start with a share": Wants("server share", "server"),
    "stop with a share": Wants("server share", "server"),
    "reboot with a share": Wants("server share", "server"),
    "delete with a share": Wants("server share", "server share"),
    "insist on reboot with a share": Wants("server share", "server"),
    "insist on stop with a share": Wants("server volume share", "server volume"),
    "reset a detaching server": Wants("server share", "server share"),
    "shared migration": Wants("server share", "server share"),
    "shared migration in vain": Wants("server share", "server share"),
    "shared confirm": Wants("server share", "server share"),
    "shared revert": Wants("server share", "server share"),
    "delete a moved server with a share": Wants("server share", "server share"),
    "release share": Wants("server share", "server share"),
    "cold migration elsewhere": Wants(f"{_MOVING} group member", _MOVING, moves=True),
    "live migration elsewhere": Wants(f"{_MOVING} group member", _MOVING, moves=True),
    "block migration elsewhere": Wants(f"{_LOCAL} group member", _LOCAL),
    "shared migration elsewhere": Wants("server share group member", "server share"),
    "fence": Wants("host", "host"),
    "fence again": Wants("host", "host"),
    "sweep share": Wants("share rule", "share", "rule"),
    "create share": Wants("", ""),
    "delete share": Wants("share rule", "share"),
    "force-delete share": Wants("share rule", "share"),
    "extend share": Wants("share rule", "share"),
    "shrink share": Wants("share rule", "share"),
    "reset share": Wants("share rule", "share"),
    "reset a deleted share": Wants("share rule", "share"),
    "reset a growing share": Wants("share rule", "share"),
    "reset a denying share": Wants("share rule", "share", "rule"),
    "reset a forgetting share": Wants("share rule picture", "share", "picture"),
    "allow": Wants("share", "share"),
    "deny": Wants("share rule", "share", "rule"),
    "deny a locked rule": Wants("share rule", "share", "rule"),
    "take share snapshot": Wants("share rule", "share"),
    "delete share snapshot": Wants("share rule picture", "share", "picture"),
    "copy share snapshot": Wants("share rule picture", "share", "picture"),
}
"""By the names of the scenarios; the law *across* sees that it is so."""


def service_of(scenario: Scenario) -> str:
    """Return the name of the service whose saga it is."""
    return scenario.saga.name.partition(".")[0]


def find_meetings() -> list[tuple[Scenario, Scenario]]:
    """Return every two operations of two services that can meet, each way round.

    Of scenarios with the same request one is enough: it is made where the first one stands.
    """
    held = [one for one in SCENARIOS if one.name in WANTS]
    found: list[tuple[Scenario, Scenario]] = []
    moved: set[tuple[Do, Do, Do]] = set()
    for first in held:
        asked: list[Do] = []
        for second in held:
            if service_of(first) == service_of(second) or second.act in asked:
                continue
            ground = furnish(first, WANTS[second.name])
            if ground is None:
                continue
            if ground.arrange is not first.arrange and WANTS[second.name].moves:
                # Two that did the same on other grounds are one here.
                same = ground.act, ground.arrange, second.act
                if same in moved:
                    continue
                moved.add(same)
            asked.append(second.act)
            found.append((ground, second))
    return found


def furnish(first: Scenario, second: Wants) -> Scenario | None:
    """Return a scenario on whose ground the second can be asked for; None where they cannot meet.

    Where it speaks of a snapshot, one is made of the volume that stands there; where it moves a
    server, the server is one that can.
    """
    wants = WANTS[first.name]
    if second.can_meet(wants):
        return first
    if wants.waits or wants.bare:
        # No snapshot is taken of a volume that waits, and no server moves that is away.
        return None
    with_snapshot = replace(wants, stands=f"{wants.stands} snapshot")
    if "volume" in wants.stands and second.can_meet(with_snapshot):
        named = f"{first.name} with a snapshot"
        return replace(first, name=named, arrange=_with_snapshot(first.arrange))
    if second.moves and wants.stands in {_SERVER, f"{_SERVER} snapshot"}:
        pictured = wants.stands != _SERVER
        arrange = _with_snapshot(a_server_that_moves) if pictured else a_server_that_moves
        return replace(first, name=f"{first.name} that moves", arrange=arrange, hosts=_THERE)
    return None


@cache
def _with_snapshot(arrange: Do) -> Do:
    return partial(a_snapshot, of=arrange)
