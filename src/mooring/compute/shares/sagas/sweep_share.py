"""Take away what no server needs: an access rule of ours, or a mount (specs 003, stale rules).

What a database that was restored no longer knows, or what an operator's abort left, is found by the
loop beside this. Here it is looked at again, with whatever could begin to need it kept out.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from mooring.agent_api.verbs import UNMOUNT_SHARE
from mooring.compute.hosts import guests
from mooring.compute.shares import access_rules, doors, folders, mappings, share_places
from mooring.limits import COMPUTE_SHARE_LEAVES_S
from mooring.saga.define import Lock, Park, Saga, Step, exclusive

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.agent_api.client import AgentClient
    from mooring.compute.service import Compute
    from mooring.saga.define import Run


class SweepShare(Struct, frozen=True, kw_only=True):
    """The notes: a rule, or with a server what a host has mounted for it.

    rule_id, client  the rule, and whom it lets in
    server_id, host  for whom it is mounted, and where
    needed           whether somebody turned out to need it
    tried            how often it was denied
    """

    share_id: str
    rule_id: str = ""
    client: str = ""
    server_id: str = ""
    host: str = ""
    needed: bool = False
    tried: int = 0


def locks_of(notes: SweepShare) -> list[Lock]:
    """Return what keeps everybody from beginning to need it."""
    if notes.server_id:
        return [exclusive(f"server:{notes.server_id}")]
    return [exclusive(doors.lock_of(notes.share_id, notes.client))]


def look_again(tx: Session, notes: SweepShare, run: Run[Compute]) -> SweepShare:
    """See whether anybody needs it."""
    del run
    if notes.server_id:
        there = folders.everywhere(tx, notes.server_id)
        found = any((one.share_id, one.host) == (notes.share_id, notes.host) for one in there)
        return replace(notes, needed=found)
    mappings.of_share(tx, notes.share_id)
    return replace(notes, needed=bool(share_places.of_client(tx, notes.share_id, notes.client)))


async def unmount_stray(notes: SweepShare, run: Run[Compute]) -> None:
    """Have the host unmount what it has for a server that is not there, or elsewhere.

    What it keeps, as a guest runs with it, is left: the loop finds it again.
    """
    if notes.needed or not notes.server_id:
        return

    async def verb(agent: AgentClient) -> None:
        await agent.unmount_share(notes.server_id, notes.share_id, operation=run.operation)

    path = UNMOUNT_SHARE.target(notes.server_id, notes.share_id)
    await guests.give_up_late(run, guests.take_back(run, notes.host, path, verb))


async def deny_stray(notes: SweepShare, run: Run[Compute]) -> None:
    """Have the share service keep a client out that no server's host is, and wait until it is.

    A rule that cannot be denied, as somebody has locked it, is left: the loop finds it again.
    """
    if notes.needed or not notes.rule_id:
        return
    rest = partial(Park, seconds=access_rules.pause_s(run), timeout_s=COMPUTE_SHARE_LEAVES_S)
    rule = await access_rules.find_by_id(run, notes.rule_id)
    if rule is None:
        return
    if rule.state in access_rules.LEAVING:
        raise rest()
    if notes.tried < doors.DENIALS:
        denying = doors.deny_stray(run, notes.share_id, notes.rule_id, notes.tried)
        if not await guests.give_up_late(run, denying):
            raise rest(notes=replace(notes, tried=notes.tried + 1))


SWEEP_SHARE = Saga(
    "compute.sweep_share",
    SweepShare,
    Step("look_again", look_again),
    Step("unmount_stray", unmount_stray),
    Step("deny_stray", deny_stray),
    locks=locks_of,
    pivot="unmount_stray",
)
