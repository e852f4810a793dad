"""Certificates are renewed long before they end, while hosts and control plane serve.

The control plane asks: a host hands out a request, gets its certificate, and shows it from the next
connection on. A process that dies in between leaves a host whose certificate is renewed once more.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from mooring import certificates
from mooring.errors import Conflict, MooringError
from mooring.fleet import joining

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from mooring.fleet.fleet import Fleet
    from mooring.fleet.tables import HostRow

log = structlog.get_logger()


async def renew(fleet: Fleet, name: str) -> None:
    """Have a host show a new certificate, for a new key. Raises NotFound, Conflict, Unavailable."""
    row = await fleet.host(name)
    if row.status != "joined":
        raise Conflict(f"Host {name} is {row.status}: only one that has joined has a certificate.")
    await fleet.look()
    agent = fleet.agents[name]
    wish = certificates.read_request((await agent.certificate()).wish.encode())
    made = joining.sign_again(fleet.root, row, wish, fleet.clock.now())
    await agent.put_certificate(made)
    await fleet.store.write(lambda tx: joining.note(tx, row, wish, made))
    log.info("a certificate was renewed", host=name)


async def renew_due(fleet: Fleet) -> None:
    """Renew what ends within `CERTIFICATE_RENEW_S`, the control plane's own certificate first."""
    now = fleet.clock.now()
    fleet.renew_own(now)
    due = [row.name for row in await fleet.hosts() if joining.is_due(row, now)]
    await asyncio.gather(*(_try(name, renew(fleet, name)) for name in due))


async def renew_moves(fleet: Fleet, row: HostRow) -> None:
    """Bring a host that wants it what its guests come and go with, if that is missing or ends soon.

    Raises NotFound of an agent of the release before, Conflict, Invalid, Unavailable.
    """
    agent, now = fleet.agents[row.name], fleet.clock.now()
    shown = await agent.move_certificates()
    fleet.note_moves(row.name, in_the_clear=shown.in_the_clear)
    if shown.is_wanted and joining.lacks_moves(fleet.moves, row, shown.held, now):
        wish = certificates.read_request(shown.wish.encode())
        await agent.put_move_certificates(joining.sign_moves(fleet.moves, row, wish, now))
        log.info("a host was certified for moves", host=row.name)


async def renew_all_moves(fleet: Fleet) -> None:
    """Do so with every host that has joined."""
    joined = [row for row in await fleet.hosts() if row.status == "joined"]
    await asyncio.gather(*(_try(row.name, renew_moves(fleet, row)) for row in joined))


async def _try(name: str, renewing: Awaitable[None]) -> None:
    """Renew, and say what went wrong: whatever becomes of one host, the others have their turn."""
    try:
        await renewing
    except MooringError as error:
        log.warning("a certificate could not be renewed", host=name, error=str(error))
    except Exception:
        log.exception("a certificate could not be renewed, by a mistake of ours", host=name)
