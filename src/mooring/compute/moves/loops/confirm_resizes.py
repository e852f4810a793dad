"""Confirm what users neither confirmed nor took back in time: `resize_confirm_window`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import structlog

from mooring.compute.moves import cold_migrating, migrations
from mooring.errors import MooringError
from mooring.who import Who

if TYPE_CHECKING:
    from mooring.compute.service import Compute
    from mooring.compute.tables import Migration

log = structlog.get_logger()

_PERIOD_S = 60.0


async def run(compute: Compute) -> None:
    """Look again and again, until cancelled."""
    while True:
        await compute.clock.sleep(_PERIOD_S)
        await confirm_once(compute)


async def confirm_once(compute: Compute) -> None:
    """Confirm every move that has waited for longer than the window.

    One that cannot be confirmed now, as its host is down or the server is in use, waits on.
    """
    window_s = compute.settings.resize_confirm_window
    if not window_s:
        return
    since = compute.clock.now() - timedelta(seconds=window_s)
    for row in await compute.store.read(lambda tx: migrations.waiting_since(tx, since)):
        await _confirm(compute, row)


async def _confirm(compute: Compute, row: Migration) -> None:
    user = Who(user_id=row.user_id, project_id=row.project_id, is_admin=True)
    try:
        await cold_migrating.confirm(compute, user, row.server_id, only=row.id)
    except MooringError as error:
        log.warning("a resize could not be confirmed", server=row.server_id, reason=str(error))
