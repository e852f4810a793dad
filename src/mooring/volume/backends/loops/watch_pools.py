"""Ask every host for its pools, so that new volumes find one with room."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog
from sqlalchemy.orm import Session

from mooring.errors import MooringError
from mooring.volume.backends import backends
from mooring.volume.volumes import messages

if TYPE_CHECKING:
    from mooring.agent_api.hosts import Host
    from mooring.volume.service import Volume

log = structlog.get_logger()
_ROLE = "volume"


async def watch_pools(volume: Volume) -> None:
    """Look at all hosts again and again, until cancelled."""
    while True:
        try:
            await look_once(volume)
        except MooringError as error:
            log.warning("pools were not written down", error=str(error))
        await volume.clock.sleep(volume.settings.pool_poll_s)


async def look_once(volume: Volume) -> None:
    """Ask every host once and write down what they say; one that is silent grows old."""
    hosts = await asyncio.gather(*(_ask(volume, name) for name in volume.agents))
    now, zone = volume.clock.now(), volume.settings.default_zone
    found = [host for host in hosts if host is not None and _ROLE in host.roles]

    def note(tx: Session) -> None:
        for host in found:
            backends.note_host(tx, host, zone, now)
        messages.sweep(tx, now)

    await volume.store.write(note)


async def _ask(volume: Volume, name: str) -> Host | None:
    try:
        return await volume.agents[name].host()
    except MooringError as error:
        log.info("host does not answer", host=name, error=str(error))
        return None
