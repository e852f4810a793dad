"""The operation of another service that waits for a new volume is told that it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from mooring import limits
from mooring.errors import MooringError
from mooring.saga.define import Each, Step

if TYPE_CHECKING:
    from mooring.saga.define import Run
    from mooring.volume.service import Volume
    from mooring.volume.volumes.sagas.create_notes import CreateVolume

log = structlog.get_logger()


async def wake_asker(notes: CreateVolume, asker: str, run: Run[Volume]) -> None:
    """Tell the operation that asked for the volume. Unheard, it finds the volume by itself."""
    del notes
    try:
        await run.service.compute.wake(asker, timeout_s=limits.VOLUME_WAKE_S)
    except MooringError as error:
        log.info("volume.asker_not_woken", operation=asker, error=str(error))


def _find_asker(notes: CreateVolume) -> list[str]:
    return [notes.asker] if notes.asker else []


ASKER = Each("asker", _find_asker, Step("wake_asker", wake_asker))
