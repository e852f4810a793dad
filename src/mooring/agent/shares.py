"""Shares on this host. Every verb may be repeated."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.agent.host import Agent
from mooring.agent.serving import Call, Handlers
from mooring.agent.share_drivers.base import Grant, ShareDriver, check_rule
from mooring.agent_api import verbs
from mooring.agent_api.shares import (
    AccessGranted,
    GrantedRule,
    ShareExports,
    ShareSize,
    ShareSnapshotName,
)
from mooring.errors import Invalid, NotFound, Unavailable
from mooring.fence.journal import Answer
from mooring.limits import VOLUME_SIZE_GIB

handlers = Handlers[Agent]()


@handlers.of(verbs.SHOW_SHARE)
async def show_share(call: Call[Agent]) -> Answer:
    """Answer a share of this host's pools."""
    share_id, silent = call.path["share_id"], None
    for driver in call.agent.share_drivers.values():
        try:
            found = await driver.find(share_id)
        except Unavailable as error:
            silent = error
            continue
        if found is not None:
            return Answer(body=found)
    raise silent or NotFound(f"Share {share_id} is not on host {call.agent.settings.name}.")


@handlers.of(verbs.PUT_SHARE)
async def put_share(call: Call[Agent]) -> Answer:
    """Make a share."""
    spec, share_id = call.body, call.path["share_id"]
    driver = call.agent.share_driver(spec.pool)
    _check_size(spec.size_gb)
    if spec.protocol != driver.protocol:
        raise Invalid(
            f"Pool {spec.pool} has shares of {driver.protocol}, not of {spec.protocol}. Nothing "
            "was made; choose a pool of that protocol."
        )
    others = [] if spec.snapshot is None else [spec.snapshot.share]
    _check_source(spec.snapshot)
    async with call.agent.share_turns.take(share_id, *others):
        exports = await driver.create(share_id, spec.size_gb, spec.snapshot, call.operation_key)
    return Answer(body=ShareExports(exports))


@handlers.of(verbs.DELETE_SHARE)
async def delete_share(call: Call[Agent]) -> Answer:
    """Remove a share, with all its rules."""
    share_id = call.path["share_id"]
    async with call.agent.share_turns.take(share_id):
        for driver in _drivers(call):
            await driver.delete(share_id)
    return Answer(status=204)


@handlers.of(verbs.CLAIM_SHARE)
async def claim_share(call: Call[Agent]) -> Answer:
    """Change nothing: the fence has the newer lock's mark, and what ran before has ended."""
    del call
    return Answer(status=204)


@handlers.of(verbs.RESIZE_SHARE)
async def resize_share(call: Call[Agent]) -> Answer:
    """Make a share larger or smaller."""
    share_id, size_gb = call.path["share_id"], call.body.size_gb
    driver = call.agent.share_driver(call.body.pool)
    _check_size(size_gb)
    async with call.agent.share_turns.take(share_id):
        await driver.resize(share_id, size_gb, call.operation_key)
    return Answer(body=ShareSize(size_gb))


@handlers.of(verbs.FORGET_SHARE_SIZE)
async def forget_share_size(call: Call[Agent]) -> Answer:
    """Leave a tombstone: the fence has ended what ran. The size stays as it is."""
    del call
    return Answer(status=204)


@handlers.of(verbs.GRANT_ACCESS)
async def grant_access(call: Call[Agent]) -> Answer:
    """Let a client mount a share, change how, or repair that."""
    body, share_id = call.body, call.path["share_id"]
    driver = call.agent.share_driver(body.pool)
    rule = GrantedRule(rule_id=call.path["rule_id"], type=body.type, to=body.to, level=body.level)
    grant = check_rule(driver, Grant(rule=rule, project_id=body.project_id))
    async with call.agent.share_turns.take(share_id):
        key = await driver.grant(share_id, grant)
    return Answer(body=AccessGranted(key), secret=key is not None)


@handlers.of(verbs.REVOKE_ACCESS)
async def revoke_access(call: Call[Agent]) -> Answer:
    """Let a client mount a share no more, and end what it has mounted."""
    share_id = call.path["share_id"]
    async with call.agent.share_turns.take(share_id):
        for driver in _drivers(call):
            await driver.revoke(share_id, call.path["rule_id"])
    return Answer(status=204)


@handlers.of(verbs.PUT_SHARE_SNAPSHOT)
async def put_share_snapshot(call: Call[Agent]) -> Answer:
    """Keep what is in a share now."""
    share_id, driver = call.path["share_id"], call.agent.share_driver(call.body.pool)
    async with call.agent.share_turns.take(share_id):
        await driver.take_snapshot(share_id, call.path["snapshot_id"])
    return Answer(status=204)


@handlers.of(verbs.DELETE_SHARE_SNAPSHOT)
async def delete_share_snapshot(call: Call[Agent]) -> Answer:
    """Remove a snapshot of a share."""
    share_id = call.path["share_id"]
    async with call.agent.share_turns.take(share_id):
        for driver in _drivers(call):
            await driver.delete_snapshot(share_id, call.path["snapshot_id"])
    return Answer(status=204)


def _drivers(call: Call[Agent]) -> Sequence[ShareDriver]:
    """Return the pool that is named, or all. Raises NotFound when the host has no such pool."""
    agent, pool = call.agent, call.query.get("pool")
    return [agent.share_driver(pool)] if pool else list(agent.share_drivers.values())


def _check_size(size_gb: int) -> None:
    if not 1 <= size_gb <= VOLUME_SIZE_GIB:
        raise Invalid(f"A share has 1 to {VOLUME_SIZE_GIB} GiB. Nothing was changed.")


def _check_source(source: ShareSnapshotName | None) -> None:
    """Raise NotFound for what names no snapshot: it would become a part of paths."""
    if source is not None and not verbs.are_ids((source.share, source.snapshot)):
        raise NotFound("There is no such snapshot. Nothing was made.")
