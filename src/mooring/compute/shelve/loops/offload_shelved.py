"""Take servers from their hosts that have waited there for as long as `shelved_offload_time` says.

Since when one waits stands in its row, so that this goes on whoever is killed.
"""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog
from sqlalchemy import select

from mooring.compute.servers import states
from mooring.compute.shelve import shelving
from mooring.compute.tables import Server
from mooring.errors import MooringError
from mooring.who import Who

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute

log = structlog.get_logger()

_PERIOD_S = 60.0


async def run(compute: Compute) -> None:
    """Look again and again, until cancelled."""
    while True:
        await compute.clock.sleep(_PERIOD_S)
        await offload_once(compute)


async def offload_once(compute: Compute) -> None:
    """Take away every server that is due.

    One that cannot be taken now, as its host is down or the server is in use, waits on.
    """
    after_s = compute.settings.shelved_offload_time
    if after_s < 0:
        return
    since = compute.clock.now() - timedelta(seconds=after_s)
    for server_id in await compute.store.read(lambda tx: _find_due(tx, since)):
        try:
            await shelving.offload(compute, await _own(compute), server_id)
        except MooringError as error:
            log.warning(
                "a shelved server could not leave its host", server=server_id, why=str(error)
            )


def _find_due(tx: Session, since: datetime) -> list[str]:
    query = select(Server.id).where(
        Server.vm_state == states.SHELVED,
        Server.task_state.is_(None),
        Server.shelved_at <= since,
        Server.deleted_at.is_(None),
    )
    return list(tx.execute(query.order_by(Server.shelved_at, Server.id)).scalars())


async def _own(compute: Compute) -> Who:
    """Return the service's own user, in a request of its own."""
    request_id = f"req-{uuid.uuid4()}"
    return Who(user_id=await compute.own_user_id(), is_admin=True, request_id=request_id)
