"""`mooring host`: asks a running cloud for its hosts on other machines, as its administrator."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click
import msgspec

from mooring import typed
from mooring.access import read_login
from mooring.clients.identity import ServiceUser, ask
from mooring.clients.transport import Network
from mooring.clock import RealClock
from mooring.compute.hosts.drain_views import Drain
from mooring.errors import Unavailable
from mooring.fleet.app import BESIDE, PATH, HostView, Invitation, Invited

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from mooring.config import Settings

_LOOK_S, _PATIENCE_S = 1.0, 60.0
ROLES = {
    "compute": ["compute"],
    "volume": ["volume"],
    "share": ["share"],
    "both": ["compute", "volume"],
    "all": ["compute", "volume", "share"],
}


async def add_host(settings: Settings, name: str, role: str) -> None:
    """Print a token with which a host may join. Raises Conflict when there is one of this name."""
    body = msgspec.json.encode(Invitation(name, ROLES[role]))
    found = typed.convert(await _ask(settings, "POST", PATH, body), Invited)
    click.echo(found.token)
    click.echo(
        f"Host {name} may join with it once, until {_time(found.until)} UTC. There:\n"
        "    mooring agent --state-dir DIR --join TOKEN",
        err=True,
    )


async def list_hosts(settings: Settings) -> None:
    """Print the hosts by name: those on other machines, and those beside the control plane."""
    answer = await _ask(settings, "GET", PATH)
    found = typed.convert(answer["hosts"], list[HostView])
    rows = [("NAME", "ROLES", "STATUS", "ADDRESS", "CERTIFIED UNTIL", "SILENT SINCE")]
    rows += [
        (
            one.name,
            ",".join(one.roles) or "-",
            one.status,
            one.address or "-",
            _time(one.certified_until),
            _time(one.silent_since),
        )
        for one in found
    ]
    if found:
        click.echo(_columns(rows))
    if all(one.status == BESIDE for one in found):
        click.echo("No host on another machine was invited.")


async def show_host(settings: Settings, name: str) -> None:
    """Print one host. Raises NotFound."""
    one = typed.convert(await _ask(settings, "GET", f"{PATH}/{quote(name, safe='')}"), HostView)
    facts = {
        "name": one.name,
        "roles": " ".join(one.roles),
        "status": one.status,
        "address": one.address,
        "may join until": _time(one.invited_until) if one.status == "invited" else "",
        "joined": _time(one.joined_at) if one.joined_at else "",
        "certified until": _time(one.certified_until) if one.certified_until else "",
        "certificate": one.fingerprint,
        "silent since": _time(one.silent_since) if one.silent_since else "",
    }
    click.echo(_columns([(name, value) for name, value in facts.items() if value]))


async def remove_host(settings: Settings, name: str) -> None:
    """Take a host out of the cloud. Raises NotFound, and Conflict while it is used."""
    await _ask(settings, "DELETE", f"{PATH}/{quote(name, safe='')}")
    click.echo(f"Host {name} is out of the cloud. Its agent may be stopped.")


async def renew_host(settings: Settings, name: str) -> None:
    """Have a host show a new certificate. Raises NotFound, and Conflict for one not joined."""
    path = f"{PATH}/{quote(name, safe='')}/renewal"
    one = typed.convert(await _ask(settings, "POST", path), HostView)
    click.echo(f"Host {name} is certified until {_time(one.certified_until)} UTC.")


async def drain_host(settings: Settings, name: str, *, only_look: bool) -> int:
    """Have a host's servers move away and print how far that is, to its end.

    Returns 0 once it has none, 1 when some stay. Who stops watching stops nothing. Raises NotFound.
    """
    found = await _ask_drain(settings, "GET" if only_look else "PUT", name)
    said = ""
    while True:
        if (line := _progress(found)) != said:
            click.echo(said := line)
        if only_look or found.status != "draining":
            break
        await asyncio.sleep(_LOOK_S)
        found = await _look_patiently(settings, name)
    for one in found.left:
        click.echo(f"    {one.name} ({one.id}): {one.reason}")
    if found.status == "drained" and not found.left:
        click.echo(f"Host {name} has no servers. mooring host enable {name} lets it have some.")
        return 0
    return 0 if only_look else 1


async def enable_host(settings: Settings, name: str) -> None:
    """Let a host have servers again, and move no more away. Raises NotFound."""
    await _ask(settings, "DELETE", _drain_path(name))
    click.echo(f"Host {name} may have servers again.")


async def _look_patiently(settings: Settings, name: str) -> Drain:
    """Ask again while the cloud is being started anew: what it was at goes on."""
    for _ in range(int(_PATIENCE_S / _LOOK_S)):
        try:
            return await _ask_drain(settings, "GET", name)
        except Unavailable:
            await asyncio.sleep(_LOOK_S)
    return await _ask_drain(settings, "GET", name)


async def _ask_drain(settings: Settings, method: str, name: str) -> Drain:
    return typed.convert(await _ask(settings, method, _drain_path(name)), Drain)


def _drain_path(name: str) -> str:
    return f"/compute/v2.1/mooring/drains/{quote(name, safe='')}"


def _progress(found: Drain) -> str:
    counts = {
        "moved": (found.moved, found.moved_stopped),
        "on the way": (found.moving, found.moving_stopped),
        "waiting": (found.waiting, 0),
        "staying": (len(found.left), 0),
    }
    words = ", ".join(
        f"{count} {what}" + (f" ({stopped} stopped)" if stopped else "")
        for what, (count, stopped) in counts.items()
    )
    return f"{found.host} {found.status}: {words}{'. ' if found.note else ''}{found.note}"


async def _ask(settings: Settings, method: str, path: str, body: bytes = b"") -> Any:
    url, login = await asyncio.to_thread(read_login, settings.state_path)
    network = Network()
    try:
        user = ServiceUser(network, f"{url}/identity/v3", login, clock=RealClock())
        headers = {"X-Auth-Token": await user.token(), "content-type": "application/json"}
        answer = await ask(network, method, f"{url}{path}", headers, content=body)
    finally:
        await network.aclose()
    return msgspec.json.decode(answer.content) if answer.content else None


def _columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def _time(moment: datetime | None) -> str:
    if moment is None:
        return "-"
    return moment.isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")
