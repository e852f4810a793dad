"""Ask every host for its pools, so that new volumes find one with room."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeAlias

import structlog

from mooring.bulkhead import Rounds
from mooring.errors import MooringError
from mooring.store.together import Together
from mooring.volume.backends import backends
from mooring.volume.volumes import messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session

    from mooring.agent_api.hosts import Host
    from mooring.volume.service import Volume

    Reports: TypeAlias = Together[Host, None]

log = structlog.get_logger()
_ROLE = "volume"


async def watch_pools(volume: Volume) -> None:
    """Look at all hosts again and again, until cancelled; a slow one delays no other."""
    rounds, reports = Rounds(), _gather_reports(volume)
    try:
        while True:
            rounds.begin(list(volume.agents), lambda name: _look_at(volume, name, reports))
            await _forget_messages(volume)
            await volume.clock.sleep(volume.settings.pool_poll_s)
    finally:
        await rounds.end()
        await reports.end()


async def look_once(volume: Volume) -> None:
    """Ask every host once and write down what they say; one that is silent grows old."""
    reports = _gather_reports(volume)
    await asyncio.gather(*(_look_at(volume, name, reports) for name in volume.agents))
    await _forget_messages(volume)


async def look_at(volume: Volume, name: str) -> None:
    """Ask one host for its pools; one that fails is logged."""
    await _look_at(volume, name, _gather_reports(volume))


async def _look_at(volume: Volume, name: str, reports: Reports) -> None:
    try:
        host = await volume.agents[name].host()
    except MooringError as error:
        log.info("host does not answer", host=name, error=str(error))
        return
    if _ROLE not in host.roles:
        return
    try:
        await reports(host)
    except MooringError as error:
        log.warning("pools were not written down", host=name, error=str(error))


def _gather_reports(volume: Volume) -> Reports:
    """Return what writes down what hosts say of their pools, that of many in one transaction."""

    def write(tx: Session, reports: Sequence[Host]) -> Sequence[None]:
        zone, now = volume.settings.default_zone, volume.clock.now()
        return [backends.note_host(tx, host, zone, now) for host in reports]

    return Together(lambda reports: volume.store.write(lambda tx: write(tx, reports)))


async def _forget_messages(volume: Volume) -> None:
    try:
        await volume.store.write(lambda tx: messages.sweep(tx, volume.clock.now()))
    except MooringError as error:
        log.warning("old messages were not removed", error=str(error))
