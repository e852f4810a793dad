"""The two doors to access rules: `grant` lets a host in to a server's share, `revoke` keeps it out.

Nobody else in this service makes or denies a rule (specs 003, `_grant_share_access` and
`_revoke_share_access`). A rule is of a client: the address of a host for NFS, for CephFS one cephx
id, by which all hosts are let in to the shares of one project. What relies on it is in
`share_places`, so a rule goes when the last place that relies on it does, whichever server's; and
who comes while it goes waits until it is gone. That is decided with all mappings of the share
locked, since nothing else keeps two servers apart.

Rules that somebody else made are used and left (`access_rules`). Source:
facts/shared_file_systems.md 4, 6.4, 6.6 and 7.3.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.clients.share import NewRule
from mooring.compute.hosts import guests
from mooring.compute.shares import access_rules, leaving_places, mappings, share_places
from mooring.compute.shares.share_places import GRANTED, GRANTING, LEAVING, LEFT, MOUNTED, REVOKING
from mooring.errors import Conflict, Invalid, MooringError, NotFound
from mooring.limits import COMPUTE_SHARE_LEAVES_S
from mooring.saga.define import Park
from mooring.saga.journal import is_unavailable
from mooring.saga.ownership import require_lease

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.clients.share import LockedRule, Rule, Share
    from mooring.compute.service import Compute
    from mooring.compute.shares.folders import Folder
    from mooring.compute.shares.share_places import Place
    from mooring.fence.operation import Operation
    from mooring.saga.define import Run

DENIALS = 3
"""How often a rule is denied that is in error then, before its host is let in as before."""


def identity_of(share: Share) -> str:
    """Return the cephx id by which hosts mount a share: one for each project, as Ceph wants it."""
    return f"mooring-{share.project_id}"


async def grant(run: Run[Compute], folder: Folder) -> None:
    """Let a host in to a share and wait until it is; nothing when it is already.

    A rule in error is denied and made once more. Raises Conflict when that does not help, when the
    rule only lets it read, or when the host is lost; Park while the share service is at it.
    """
    client = await _client_of(run, folder)
    known = await _find_place(run, folder)
    if known is not None and known.access_to != client:
        # The host has another address now.
        await revoke(run, folder)
    place = await run.service.store.write(partial(_claim, run=run, folder=folder, client=client))
    if place is None:
        raise _rest(run, folder, "another operation has it denied")
    rule = await access_rules.find(run, folder.share_id, folder.protocol, client)
    if rule is None:
        await _allow(run, folder, place)
        raise _rest(run, folder, "it is new")
    if rule.state == "error":
        await _retry(run, folder, place, rule)
    if rule.state != "active":
        raise _rest(run, folder, f"it is {rule.state}")
    if rule.access_level != "rw":
        raise Conflict(
            f"Access rule {rule.id} lets host {folder.host} only read share {folder.share_id}. "
            "Delete that rule, and try again."
        )
    state = MOUNTED if place.state == MOUNTED else GRANTED
    is_ours = await _is_ours(run, place, rule)
    await _change(run, folder, state=state, tries=0, rule_id=rule.id, rule_is_ours=is_ours)


async def revoke(
    run: Run[Compute], folder: Folder, *, undoes: bool = False, is_left: bool = False
) -> None:
    """Keep a host out of a share and wait until it is; forget its place.

    A rule on which another place relies is spared: of another server, or of this one at another
    host. A rule, or a share, that is gone is fine. With `undoes` this is the undo of the step that
    granted, none of whose calls acts any more. With `is_left` the server may be given the share
    there meanwhile: then nothing is kept out or forgotten. Raises what the share service says
    against it, and the place stays then; Park while the share service is at it.
    """
    before = await _find_place(run, folder)
    if before is None:
        return
    none_made = undoes and await _bury(run, folder, before)
    place = await run.service.store.write(
        partial(_begin_leaving, run=run, folder=folder, is_left=is_left)
    )
    if place is None:
        return
    rule = await _find_own(run, folder, place, none_made=none_made)
    if rule is not None and rule.state not in access_rules.LEAVING:
        place = await _have_denied(
            run, folder, place, rule, refused=LEAVING if is_left else GRANTED
        )
        rule = await _find_own(run, folder, place)
    going = replace(place, state=REVOKING)
    is_out = rule is None and await run.service.store.write(
        partial(leaving_places.forget, run=run, folder=folder, seen=going)
    )
    if not is_out:
        raise Park(seconds=access_rules.pause_s(run), timeout_s=COMPUTE_SHARE_LEAVES_S)


async def look(run: Run[Compute], folder: Folder) -> None:
    """Note whether the share service lets a host in, where it was not to be kept out."""
    place = await _find_place(run, folder)
    if place is None:
        return
    rule = await _find_own(run, folder, place)
    if rule is None:
        await run.service.store.write(
            partial(leaving_places.forget, run=run, folder=folder, seen=place)
        )
    else:
        await _change(run, folder, state=GRANTED, rule_id=rule.id, rule_is_ours=True)


async def deny_stray(run: Run[Compute], share_id: str, rule_id: str, tried: int) -> None:
    """Begin to deny a rule of ours on which nobody relies (`sweep_share`), for the n-th time.

    Who comes while it goes waits until it is gone: the saga holds `lock_of`. Raises what the share
    service says against it.
    """
    operation = _denying(run, rule_id, tried)
    await run.service.shares.deny_access(None, share_id, rule_id, operation=operation)


def lock_of(share_id: str, client: str) -> str:
    """Return the key that is held while a rule on which nobody relies is denied."""
    return f"share-rule:{share_id}:{client}"


async def key_of(run: Run[Compute], folder: Folder) -> str:
    """Return the secret that the host mounts with: of CephFS its client's key, else nothing.

    It goes into no notes. Raises Conflict when no active rule lets the client in.
    """
    if folder.protocol != access_rules.CEPHFS:
        return ""
    rule = await access_rules.find(run, folder.share_id, folder.protocol, folder.access_to)
    if rule is None or rule.state != "active" or not rule.access_key:
        raise Conflict(
            f"No access rule lets {folder.access_to} in to share {folder.share_id}. It was not "
            "mounted; detach the share and attach it again."
        )
    return rule.access_key


# -- whom, and who else ------------------------------------------------------------------------


async def _client_of(run: Run[Compute], folder: Folder) -> str:
    if await guests.is_lost(run, folder.host):
        raise Conflict(
            f"Host {folder.host} was forced down or removed. It was not let in to share "
            f"{folder.share_id}; evacuate the server, or bring the host back, first."
        )
    if folder.access_to:
        return folder.access_to
    said = await guests.ask(run, folder.host, lambda agent: agent.host())
    if not said.shares.address:
        raise Conflict(
            f"Host {folder.host} does not say by which address it reaches shares. Set its "
            "share_address, and try again."
        )
    return said.shares.address


async def _find_place(run: Run[Compute], folder: Folder) -> Place | None:
    return await run.service.store.read(
        lambda tx: share_places.find(tx, folder.mapping_id, folder.host)
    )


async def _change(run: Run[Compute], folder: Folder, **values: str | int) -> None:
    def change(tx: Session) -> None:
        require_lease(tx, run)
        share_places.change(tx, folder.mapping_id, folder.host, run.now(), **values)

    await run.service.store.write(change)


def _claim(tx: Session, run: Run[Compute], folder: Folder, client: str) -> Place | None:
    """Note that the server relies on the rule; None while another one has it go."""
    require_lease(tx, run)
    locked = mappings.of_share(tx, folder.share_id)
    if folder.mapping_id not in {row.id for row in locked}:
        raise Conflict(f"Server {folder.server_id} has share {folder.share_id} no more.")
    where = folder.mapping_id, folder.host
    if run.service.sagas.holders(tx, lock_of(folder.share_id, client)):
        return None
    others = share_places.of_client(tx, folder.share_id, client)
    if any(one.state == REVOKING and (one.mapping_id, one.host) != where for one in others):
        return None
    place = share_places.find(tx, *where)
    if place is None:
        return share_places.add(tx, *where, client, run.now())
    if place.state == REVOKING and leaving_places.is_leaving(tx, run.service, folder):
        # It may look as good as ever: the share service may not have heard of the denial yet.
        return None
    if place.state in LEFT:
        share_places.change(tx, *where, run.now(), state=GRANTING, tries=0)
        return share_places.find(tx, *where)
    return place


def _begin_leaving(
    tx: Session, run: Run[Compute], folder: Folder, *, is_left: bool
) -> Place | None:
    """Note that nobody may rely on the rule any more; None, and no place, when others do.

    With `is_left` None, too, where the server itself relies on it again.
    """
    where, place = (folder.mapping_id, folder.host), leaving_places.lock(tx, run, folder)
    if place is None or (is_left and place.state not in LEFT):
        return None
    others = share_places.of_client(tx, folder.share_id, place.access_to)
    if any(one.state not in LEFT and (one.mapping_id, one.host) != where for one in others):
        share_places.remove(tx, *where)
        return None
    share_places.change(tx, *where, run.now(), state=REVOKING)
    return place


def _note_rule(tx: Session, run: Run[Compute], folder: Folder, client: str, rule_id: str) -> None:
    """Note a new rule wherever a server relies on it: who leaves last denies it."""
    require_lease(tx, run)
    for place in share_places.of_client(tx, folder.share_id, client):
        where = place.mapping_id, place.host
        share_places.change(tx, *where, run.now(), rule_id=rule_id, rule_is_ours=True)


# -- rules -------------------------------------------------------------------------------------


async def _find_own(
    run: Run[Compute], folder: Folder, place: Place, *, none_made: bool = False
) -> Rule | LockedRule | None:
    """Return the rule of a place if this service has made it.

    Who lets a host in lists the rules. That list is asked for here only where nothing else tells:
    what is never answered there is not to keep from undoing it.
    """
    if place.rule_id:
        rule = await access_rules.find_by_id(run, place.rule_id)
    elif none_made:
        return None
    else:
        rule = await _find_listed(run, folder, place)
    return rule if rule is not None and await _is_ours(run, place, rule) else None


async def _is_ours(run: Run[Compute], place: Place, rule: Rule | LockedRule) -> bool:
    """Whether this service has made a rule: noted when it was, or told by its lock.

    Its metadata its users may change. That alone tells it where a release before noted a rule.
    """
    if rule.id != place.rule_id:
        return await run.service.shares.has_locked(None, rule.id, access_rules.REASON)
    return access_rules.is_marked(rule) if place.rule_is_ours is None else place.rule_is_ours


async def _find_listed(run: Run[Compute], folder: Folder, place: Place) -> Rule | None:
    try:
        return await access_rules.find(run, folder.share_id, folder.protocol, place.access_to)
    except NotFound:
        return None


async def _bury(run: Run[Compute], folder: Folder, place: Place) -> bool:
    """End what asked for a rule, and note the rule; whether it is known that none was made."""
    is_known, made = True, list[str]()
    for tried in range(place.tries + 1):
        found = await run.service.shares.session.bury(_allowing(run, tried))
        is_known = is_known and found is not None
        made += found or []
    # Of a host that was let in it is known by which rule, and that may be the second one it had.
    if made and place.state == GRANTING:
        await run.service.store.write(
            partial(_note_rule, run=run, folder=folder, client=place.access_to, rule_id=made[-1])
        )
    return is_known and not made


async def _allow(run: Run[Compute], folder: Folder, place: Place) -> None:
    new = NewRule(
        access_type=access_rules.PROTOCOLS[folder.protocol],
        access_to=place.access_to,
        lock_reason=access_rules.REASON,
        metadata=access_rules.MARK,
    )
    asking = run.service.shares.allow_access(
        None, folder.share_id, new, operation=_allowing(run, place.tries)
    )
    try:
        made = await access_rules.unless_changing(run, folder.share_id, asking)
    except Invalid:
        if await access_rules.find(run, folder.share_id, folder.protocol, place.access_to) is None:
            raise
        # Another server's operation was faster: the next look sees its rule.
        return
    await run.service.store.write(
        partial(_note_rule, run=run, folder=folder, client=place.access_to, rule_id=made.id)
    )


async def _retry(run: Run[Compute], folder: Folder, place: Place, rule: Rule) -> None:
    """Deny a rule in error, once; then there is none, and a new one is made."""
    if place.tries:
        raise Conflict(
            f"The share service could not let host {folder.host} in to share {folder.share_id}: "
            f"access rule {rule.id} is in error. Ask its operator; the messages of the share tell "
            "more."
        )
    await _change(run, folder, tries=1, state=GRANTING)
    await _deny(run, folder, rule, 0)


async def _have_denied(
    run: Run[Compute], folder: Folder, place: Place, rule: Rule | LockedRule, refused: str
) -> Place:
    """Deny a rule, and again when that failed. Raises Conflict when it does not help."""
    change = partial(leaving_places.change, run=run, folder=folder, seen=place)
    tried = place.tries if place.state == REVOKING else 0
    try:
        if tried >= DENIALS:
            raise Conflict(
                f"The share service could not keep host {folder.host} out of share "
                f"{folder.share_id}: access rule {rule.id} is {rule.state}. The host is let in as "
                "before; ask its operator, and try again."
            )
        await _deny(run, folder, rule, tried)
    except MooringError as error:
        if not is_unavailable(error):
            values: dict[str, str | int] = {"state": refused, "tries": 0}
            await run.service.store.write(partial(change, values=values))
        raise
    # Its lock, by which it was known until now, goes with it.
    noted = {"tries": tried + 1, "rule_id": rule.id, "rule_is_ours": True}
    await run.service.store.write(partial(change, values=noted))
    return replace(place, rule_id=rule.id, rule_is_ours=True)


async def _deny(run: Run[Compute], folder: Folder, rule: Rule | LockedRule, tried: int) -> None:
    operation = _denying(run, rule.id, tried)
    denying = run.service.shares.deny_access(None, folder.share_id, rule.id, operation=operation)
    try:
        await access_rules.unless_changing(run, folder.share_id, denying)
    except NotFound:
        return


def _denying(run: Run[Compute], rule_id: str, tried: int) -> Operation:
    """Return the operation of one denial: a step that begins anew is not told what came of another.

    The storage refuses it after the share service has accepted it.
    """
    return guests.other(run.operation, f"deny.{rule_id}.{run.attempt}.{tried}")


def _allowing(run: Run[Compute], tried: int) -> Operation:
    return guests.other(run.operation, f"allow.{tried}")


def _rest(run: Run[Compute], folder: Folder, why: str) -> MooringError | Park:
    """Return what lets the step wait, for as long as a rule may take."""
    longest_s = run.service.settings.share_rule_s
    if run.worked_s < longest_s:
        return Park(seconds=access_rules.pause_s(run), timeout_s=2 * longest_s)
    return Conflict(
        f"The access rule of host {folder.host} to share {folder.share_id} was not active within "
        f"{longest_s:.0f} s: {why}. Look at the share's access rules, and try again.",
    )
