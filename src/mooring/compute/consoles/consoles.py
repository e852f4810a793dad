"""Serial consoles: tokens that open one, and who may have one (facts/compute.md 1.3, 2.6).

A token is random, and only its digest is kept. It is good for a while, any number of times, as long
as the server is at the host that it was made for.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import delete, select

from mooring.compute.hosts import hosts
from mooring.compute.servers import servers
from mooring.compute.tables import ConsoleToken, Server
from mooring.errors import Conflict, NotFound
from mooring.store.limits import COMPUTE_CONSOLE_TOKENS

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.who import Who

_TOKEN_BYTES = 32
_AWAY = frozenset({"deleting", "migrating"})
"""Tasks in which a server's guest is about to leave its host."""


async def grant(compute: Compute, who: Who, server_id: str) -> str:
    """Return a new token for the serial console of a server that the caller sees.

    Raises NotFound; Conflict: the server or its host is not ready, or its guest has no such port.
    """
    now, down_s = compute.clock.now(), compute.settings.host_down_s

    def look(tx: Session) -> str:
        server = servers.visible(tx, who, server_id)
        _require_ready(server)
        return hosts.require_up(tx, server.host, now, down_s).name

    host = await compute.store.read(look)
    try:
        await compute.agents[host].check_serial(server_id)
    except NotFound as error:
        raise NotFound(f"Instance {server_id} has no console on its host.") from error
    token = secrets.token_urlsafe(_TOKEN_BYTES)

    def write(tx: Session) -> None:
        server = servers.visible(tx, who, server_id)
        if server.host != host:
            raise Conflict(f"Instance {server_id} is on its way to another host. Try again.")
        _make_room(tx, server_id, now)
        lasts = timedelta(seconds=compute.settings.console_token_s)
        tx.add(
            ConsoleToken(
                digest=_digest(token),
                server_id=server_id,
                host=host,
                user_id=who.user_id,
                project_id=who.project_id,
                created_at=now,
                expires_at=now + lasts,
            )
        )

    await compute.store.write(write)
    return token


async def require_visible(compute: Compute, who: Who, server_id: str) -> None:
    """Raise NotFound for a server that the caller does not see."""
    await compute.store.read(lambda tx: servers.visible(tx, who, server_id).id)


async def find(compute: Compute, token: str) -> ConsoleToken:
    """Return what a token is good for now. Raises NotFound for one that is none, or no longer."""
    now, digest = compute.clock.now(), _digest(token)

    def look(tx: Session) -> ConsoleToken | None:
        found = tx.get(ConsoleToken, digest)
        if found is None or found.expires_at <= now:
            return None
        server = tx.get(Server, found.server_id)
        stays = server is not None and server.deleted_at is None and server.host == found.host
        return found if stays else None

    if (found := await compute.store.read(look)) is None:
        raise NotFound(
            "This token opens no console: it was never made, it is too old, or its server was "
            "moved or deleted. Ask for a new console URL."
        )
    return found


def _require_ready(server: Server) -> None:
    if server.host is None or server.launched_at is None:
        raise Conflict(
            f"Instance {server.id} is not ready: it has no console yet. Try again later."
        )
    if server.task_state in _AWAY:
        raise Conflict(
            f"Instance {server.id} is {server.task_state}; its console is not given out meanwhile. "
            "Try again when that has ended."
        )


def _make_room(tx: Session, server_id: str, now: datetime) -> None:
    """Take away what is too old of a server's tokens, and of the others all but the newest."""
    tx.execute(
        delete(ConsoleToken).where(
            ConsoleToken.server_id == server_id, ConsoleToken.expires_at <= now
        )
    )
    order = (ConsoleToken.created_at.desc(), ConsoleToken.digest)
    mine = select(ConsoleToken.digest).where(ConsoleToken.server_id == server_id).order_by(*order)
    older = list(tx.execute(mine.offset(COMPUTE_CONSOLE_TOKENS - 1)).scalars())
    tx.execute(delete(ConsoleToken).where(ConsoleToken.digest.in_(older)))


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
