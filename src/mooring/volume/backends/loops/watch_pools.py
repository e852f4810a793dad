"""Ask every host for its pools, so that new volumes find one with room."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from mooring.bulkhead import Rounds
from mooring.errors import MooringError
from mooring.volume.backends import backends
from mooring.volume.volumes import messages

if TYPE_CHECKING:
    from mooring.volume.service import Volume

log = structlog.get_logger()
_ROLE = "volume"


async def watch_pools(volume: Volume) -> None:
    """Look at all hosts again and again, until cancelled; a slow one delays no other."""
    rounds = Rounds()
    try:
        while True:
            rounds.begin(list(volume.agents), lambda name: look_at(volume, name))
            await _forget_messages(volume)
            await volume.clock.sleep(volume.settings.pool_poll_s)
    finally:
        await rounds.end()


async def look_once(volume: Volume) -> None:
    """Ask every host once and write down what they say; one that is silent grows old."""
    await asyncio.gather(*(look_at(volume, name) for name in volume.agents))
    await _forget_messages(volume)


async def look_at(volume: Volume, name: str) -> None:
    """Ask one host for its pools; one that fails is logged."""
    try:
        host = await volume.agents[name].host()
    except MooringError as error:
        log.info("host does not answer", host=name, error=str(error))
        return
    if _ROLE not in host.roles:
        return
    zone, now = volume.settings.default_zone, volume.clock.now()
    try:
        await volume.store.write(lambda tx: backends.note_host(tx, host, zone, now))
    except MooringError as error:
        log.warning("pools were not written down", host=name, error=str(error))


async def _forget_messages(volume: Volume) -> None:
    try:
        await volume.store.write(lambda tx: messages.sweep(tx, volume.clock.now()))
    except MooringError as error:
        log.warning("old messages were not removed", error=str(error))
