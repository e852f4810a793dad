"""How a host leaves: cut off first, then forgotten by every service that knows it.

A host that is `leaving` is asked nothing any more, by no process, and its certificate is worth
nothing. A removal that was cut off in the middle is ended by the next process that looks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

import structlog
from msgspec import Struct
from sqlalchemy import delete, update

from mooring.errors import Conflict, MooringError, NotFound, Unavailable
from mooring.fleet import joining
from mooring.fleet.tables import HostRow
from mooring.limits import FLEET_POLL_S

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.clock import Clock
    from mooring.fleet.fleet import Fleet

log = structlog.get_logger()
_SILENT = timedelta(minutes=1)
"""Before a host that this process does not ask may leave: another process may be asking it."""


class Uses(Protocol):
    """Gives what a service has on a host, each as `3 servers`; debts only of one that may pay."""

    def __call__(self, host: str, /, *, gone: bool) -> Awaitable[Sequence[str]]: ...


class Forget(Protocol):
    """Forgets a host, and its debts if it is gone. Raises Conflict while it has something there.

    Raises Unavailable for one that has answered the service since it was `heard` of.
    """

    def __call__(self, host: str, /, *, gone: bool, heard: datetime | None) -> Awaitable[None]: ...


class Remove(Protocol):
    """Takes a host out that nobody invited, as `remove_absent` does."""

    def __call__(self, host: str, /, *, gone: bool) -> Awaitable[None]: ...


class Seen(Protocol):
    """Gives when each host has answered a service last, by its name."""

    def __call__(self) -> Awaitable[Mapping[str, datetime]]: ...


class Absent(Struct, frozen=True):
    """The hosts that nobody invited, and with which a process is not started: services know them.

    Their `seen` has all hosts that answered once, also those that are not absent.
    """

    remove: Remove
    seen: Seen


class Tenant(Struct, frozen=True):
    """A service that keeps something on hosts."""

    uses: Uses
    forget: Forget
    seen: Seen


async def remove(fleet: Fleet, name: str, *, gone: bool = False) -> None:
    """Take a host out of the cloud; an invitation is withdrawn. Done again, it goes on.

    Of one that is `gone` for good what it owes is struck: nobody will do it. Raises NotFound, and
    Conflict while some service has something on the host, or where one that is gone answers.
    """
    host = await fleet.host(name)
    if host.status == "joined":
        if gone:
            await _require_silent(fleet, name)
        await _require_unused(fleet.tenants, name, gone=gone)
    fleet.removing.add(name)
    try:
        await _take_out(fleet, host, gone=gone or host.gone)
    finally:
        fleet.removing.discard(name)
    log.info("a host was removed", host=name)


async def seen(tenants: Sequence[Tenant]) -> dict[str, datetime]:
    """Return when each host that a service knows has answered any of them last, by its name."""
    newest: dict[str, datetime] = {}
    for tenant in tenants:
        for name, moment in (await tenant.seen()).items():
            newest[name] = max(moment, newest.get(name, moment))
    return newest


async def remove_absent(
    tenants: Sequence[Tenant], clock: Clock, name: str, *, gone: bool = False
) -> None:
    """Take out a host beside the control plane with which that is not started any more.

    Nobody invited it, so only the services know it. Done again, it goes on. Raises NotFound, and
    Conflict while some service has something on the host, or has heard of it just now.
    """
    heard = [(await tenant.seen()).get(name) for tenant in tenants]
    moments = [moment for moment in heard if moment is not None]
    if not moments:
        raise NotFound(f"There is no host {name}; mooring host list names them all.")
    if clock.now() - max(moments) < _SILENT:
        raise Conflict(
            f"Host {name} has answered less than a minute ago. Nothing was changed; see that no "
            "process of the control plane is started with it, and ask again in a minute."
        )
    await _require_unused(tenants, name, gone=gone)
    for tenant, moment in zip(tenants, heard, strict=True):
        await tenant.forget(name, gone=gone, heard=moment)
    log.info("a host was removed", host=name)


async def _take_out(fleet: Fleet, host: HostRow, *, gone: bool) -> None:
    if host.status != "invited":
        await fleet.store.write(lambda tx: _mark(tx, host, "leaving", gone=gone))
        await fleet.look()
        # Until then every other process has stopped asking it, and none notes it down again.
        await fleet.clock.sleep(2 * FLEET_POLL_S)
        await _forget(fleet, host, gone=gone)
    await fleet.store.write(lambda tx: _drop(tx, host))


async def go_on(fleet: Fleet) -> None:
    """End the removals that somebody began and did not live to end."""
    for host in await fleet.hosts():
        if host.status == "leaving" and host.name not in fleet.removing:
            try:
                await remove(fleet, host.name)
            except MooringError as error:
                log.warning("a host could not be removed", host=host.name, error=str(error))


async def _require_silent(fleet: Fleet, name: str) -> None:
    try:
        if name in fleet.agents:
            await fleet.agents[name].host()
    except Unavailable:
        return
    raise Conflict(
        f"Host {name} answers, so it is not gone. Nothing was changed; without --gone it leaves "
        "once it has paid what it owes."
    )


async def _require_unused(tenants: Sequence[Tenant], name: str, *, gone: bool) -> None:
    uses = [use for tenant in tenants for use in await tenant.uses(name, gone=gone)]
    if uses:
        raise Conflict(
            f"Host {name} still has {', '.join(uses)}. Nothing was changed; delete or move them, "
            "and let it pay what it owes, first. What a host owes whose machine never runs again "
            "is struck with --gone."
        )


async def _forget(fleet: Fleet, host: HostRow, *, gone: bool) -> None:
    """Have every service forget a host. Where it is used again, it stays in the cloud.

    Another process may have ended this removal since, and the host have joined anew: then it is
    another row that the services have, or will have, of which they have heard later.
    """
    heard = [(await tenant.seen()).get(host.name) for tenant in fleet.tenants]
    if not await fleet.store.read(lambda tx: _is_leaving(tx, host)):
        return
    try:
        for tenant, moment in zip(fleet.tenants, heard, strict=True):
            await tenant.forget(host.name, gone=gone, heard=moment)
    except Conflict:
        await fleet.store.write(lambda tx: _mark(tx, host, "joined", gone=False))
        await fleet.look()
        raise


def _mark(tx: Session, host: HostRow, status: str, *, gone: bool) -> None:
    """Change the status of this joining of a host, not of one that came after it."""
    this = HostRow.enrolment == host.enrolment, HostRow.status != "invited"
    tx.execute(update(HostRow).where(*this).values(status=status, gone=gone))


def _is_leaving(tx: Session, host: HostRow) -> bool:
    row = joining.find(tx, host.name)
    return row is not None and (row.enrolment, row.status) == (host.enrolment, "leaving")


def _drop(tx: Session, host: HostRow) -> None:
    row = joining.find(tx, host.name)
    if row is None or row.enrolment != host.enrolment:
        return
    if row.status != ("invited" if host.status == "invited" else "leaving"):
        raise Conflict(f"Host {host.name} has joined meanwhile. Look at it, and ask again.")
    tx.execute(delete(HostRow).where(HostRow.enrolment == host.enrolment))
