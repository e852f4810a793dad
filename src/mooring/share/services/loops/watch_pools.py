"""Ask every host for its pools of shares, so that new shares find one with room."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeAlias

import structlog

from mooring.bulkhead import Rounds
from mooring.errors import MooringError
from mooring.share.messages import messages
from mooring.share.services import pools
from mooring.store.together import Together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session

    from mooring.agent_api.hosts import Host
    from mooring.share.service import Share

    Reports: TypeAlias = Together[Host, None]

log = structlog.get_logger()
_ROLE = "share"


async def watch_pools(share: Share) -> None:
    """Look at all hosts again and again, until cancelled; a slow one delays no other."""
    rounds, reports = Rounds(), _gather_reports(share)
    try:
        while True:
            rounds.begin(list(share.agents), lambda name: _look_at(share, name, reports))
            await _forget_messages(share)
            await share.clock.sleep(share.settings.pool_poll_s)
    finally:
        await rounds.end()
        await reports.end()


async def look_once(share: Share) -> None:
    """Ask every host once and write down what they say; one that is silent grows old."""
    reports = _gather_reports(share)
    await asyncio.gather(*(_look_at(share, name, reports) for name in share.agents))
    await _forget_messages(share)


async def look_at(share: Share, name: str) -> None:
    """Ask one host for its pools; one that fails is logged."""
    await _look_at(share, name, _gather_reports(share))


async def _look_at(share: Share, name: str, reports: Reports) -> None:
    try:
        host = await share.agents[name].host()
    except MooringError as error:
        log.info("host does not answer", host=name, error=str(error))
        return
    if _ROLE not in host.roles:
        return
    try:
        await reports(host)
    except MooringError as error:
        log.warning("pools of shares were not written down", host=name, error=str(error))


def _gather_reports(share: Share) -> Reports:
    """Return what writes down what hosts say of their pools, that of many in one transaction."""

    def write(tx: Session, reports: Sequence[Host]) -> Sequence[None]:
        zone, now = share.settings.default_zone, share.clock.now()
        return [pools.note_host(tx, host, zone, now) for host in reports]

    return Together(lambda reports: share.store.write(lambda tx: write(tx, reports)))


async def _forget_messages(share: Share) -> None:
    try:
        await share.store.write(lambda tx: messages.sweep(tx, share.clock.now()))
    except MooringError as error:
        log.warning("old messages were not removed", error=str(error))
