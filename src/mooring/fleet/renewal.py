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
    from mooring.fleet.fleet import Fleet

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
    await asyncio.gather(*(_try(fleet, name) for name in due))


async def _try(fleet: Fleet, name: str) -> None:
    try:
        await renew(fleet, name)
    except MooringError as error:
        log.warning("a certificate could not be renewed", host=name, error=str(error))
