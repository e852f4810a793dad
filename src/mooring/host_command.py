"""`mooring host`: asks a running cloud for its hosts on other machines, as its administrator."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import click
import msgspec

from mooring import limits, typed
from mooring.access import read_authority, read_login, token_of
from mooring.clients.identity import Asked, ServiceUser, ask
from mooring.clients.transport import Network
from mooring.clock import RealClock
from mooring.compute.hosts.drain_views import Drain
from mooring.compute.hosts.fence_views import FAILED, FENCED, GOES_ON, Fence, Fences
from mooring.errors import Unavailable
from mooring.fleet.app import ABSENT, BESIDE, PATH, HostView, Invitation, Invited

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from datetime import datetime

    from mooring.config import Settings

T = TypeVar("T")
_LOOK_S, _PATIENCE_S = 1.0, 60.0
_DRAINED = {"moved": "moved"}
_EVACUATED = {"moved": "evacuated", "draining": "evacuating", "drained": "evacuated"}
"""What is said of how far the emptying of a host is, where it is not what the API says."""
_IN_THE_CLEAR = "in the clear, as its setting move_tls is false"
_FENCES = "/compute/v2.1/mooring/fences"
CLOUD = Asked(
    "cloud",
    limits.OPERATOR_CALL_S,
    f"The cloud did not answer within {limits.OPERATOR_CALL_S:g} s. What was asked may still be "
    "done: look before you ask again.",
)
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
    """Print the hosts by name: those on other machines, those beside the control plane, the absent.

    Below them stand those that are absent, those whose guests move in the clear, those that are
    forced down, with the reason, and fences that go on or failed.
    """
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
    if all(one.status in {BESIDE, ABSENT} for one in found):
        click.echo("No host on another machine was invited.")
    for one in found:
        if one.status == ABSENT:
            click.echo(
                f"Host {one.name} was beside the control plane, which is not started with it now. "
                "Start it with all of its hosts, or take this one out when it is gone for good: "
                f"mooring host remove {one.name}"
            )
        if one.in_the_clear:
            click.echo(f"Running guests of host {one.name} come and go {_IN_THE_CLEAR}.")
    fences = typed.convert(await _ask(settings, "GET", _FENCES), Fences).fences
    for one in fences:
        if one.status in {GOES_ON, FAILED}:
            click.echo(_fenced(one))
        if one.forced_down:
            click.echo(forced_down(one))


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
        "running guests move": _IN_THE_CLEAR if one.in_the_clear else "",
    }
    click.echo(_columns([(name, value) for name, value in facts.items() if value]))


async def remove_host(settings: Settings, name: str, *, gone: bool) -> None:
    """Take a host out of the cloud. Raises NotFound, and Conflict while it is used."""
    path = f"{PATH}/{quote(name, safe='')}"
    await _ask(settings, "DELETE", f"{path}?gone=true" if gone else path)
    if gone:
        click.echo(
            f"Host {name} is out of the cloud, and what it owed is struck. Empty its disks before "
            "its machine runs again: it may still have guests and connections to volumes."
        )
    else:
        click.echo(f"Host {name} is out of the cloud. Its agent may be stopped.")


async def renew_host(settings: Settings, name: str) -> None:
    """Have a host show a new certificate. Raises NotFound, and Conflict for one not joined."""
    path = f"{PATH}/{quote(name, safe='')}/renewal"
    one = typed.convert(await _ask(settings, "POST", path), HostView)
    click.echo(f"Host {name} is certified until {_time(one.certified_until)} UTC.")


async def drain_host(settings: Settings, name: str, *, only_look: bool) -> int:
    """Have a host's servers move away and print how far that is, to its end.

    Returns 0 once it has none, 1 when some stay, failed, or are on the way where it only looks.
    Who stops watching stops nothing. Raises NotFound.
    """
    found = await _follow(settings, _drain_path(name), _DRAINED, only_look=only_look)
    if is_empty(found):
        click.echo(f"Host {name} has no servers. mooring host enable {name} lets it have some.")
    return exit_code(found)


async def evacuate_host(settings: Settings, name: str, *, only_look: bool) -> int:
    """Have a dead host's servers evacuated and print how far that is, to its end.

    Returns as `drain_host`. Raises NotFound; Conflict for a host that was not forced down.
    """
    path = f"/compute/v2.1/mooring/evacuations/{quote(name, safe='')}"
    found = await _follow(settings, path, _EVACUATED, only_look=only_look)
    if is_empty(found):
        click.echo(
            f"Host {name} has no servers. When it is back and has paid what it owes: openstack "
            f"compute service set --up {name} nova-compute, and mooring host enable {name}."
        )
    return exit_code(found)


def is_empty(found: Drain) -> bool:
    """Whether a host that was emptied has no servers, wherever they are now, and gets none."""
    return found.status == "drained" and not found.left and not found.is_outdated


def exit_code(found: Drain) -> int:
    """Return 0 for a host whose servers have all gone, and run on as they did; otherwise 1."""
    return 0 if is_empty(found) and not found.failed else 1


async def _follow(
    settings: Settings, path: str, words: Mapping[str, str], *, only_look: bool
) -> Drain:
    """Begin to empty a host, unless it is only looked at; print and return how far that is."""
    found = await _ask_drain(settings, "GET" if only_look else "PUT", path)
    said = ""
    while True:
        if (line := progress(found, words)) != said:
            click.echo(said := line)
        if only_look or found.status != "draining":
            break
        await asyncio.sleep(_LOOK_S)
        found = await _patiently(lambda: _ask_drain(settings, "GET", path))
    for one in (*found.left, *found.failed):
        click.echo(f"    {one.name} ({one.id}): {one.reason}")
    return found


async def fence_host(settings: Settings, name: str, *, force: bool, wait: bool) -> int:
    """Have a host ended and forced down, and print how that went.

    Returns 0 once it is certain; 1 when it failed, or goes on without `wait`. Raises NotFound;
    Conflict for a host that answers, unless `force`, or when the fence fails.
    """
    body = msgspec.json.encode({"force": force})
    found = typed.convert(await _ask(settings, "PUT", _fence_path(name), body), Fence)
    while wait and found.status == GOES_ON:
        await asyncio.sleep(_LOOK_S)
        found = await _patiently(lambda: _ask_fence(settings, name))
    return _say_fence(found)


async def show_fence(settings: Settings, name: str) -> int:
    """Print how the last fencing of a host went. Returns 0 when it is fenced. Raises NotFound."""
    return _say_fence(await _ask_fence(settings, name))


def _say_fence(found: Fence) -> int:
    click.echo(_fenced(found))
    if found.forced_down:
        click.echo(forced_down(found))
    return 0 if found.status == FENCED else 1


async def _ask_fence(settings: Settings, name: str) -> Fence:
    return typed.convert(await _ask(settings, "GET", _fence_path(name)), Fence)


def _fence_path(name: str) -> str:
    return f"{_FENCES}/{quote(name, safe='')}"


def _fenced(found: Fence) -> str:
    name = found.host
    if found.status == GOES_ON:
        return (
            f"Host {name} is being fenced since {_time(found.started_at)}. mooring host fence "
            f"{name} --status shows how it went."
        )
    if found.status == FAILED:
        times = f" ({found.failures} in a row)" if found.failures > 1 else ""
        return f"Fencing host {name} failed at {_time(found.ended_at)}{times}. {found.error}"
    if found.status == FENCED:
        return f"Host {name} was fenced at {_time(found.ended_at)} by {found.user_id}."
    return f"Host {name} was never fenced."


def forced_down(found: Fence) -> str:
    """Say since when a host is forced down, by whom, why, and what it owes."""
    since = f" since {_time(found.forced_down_at)}" if found.forced_down_at else ""
    by = f" by {found.forced_down_by}" if found.forced_down_by else ""
    why = f": {found.forced_down_why}" if found.forced_down_why else ""
    return f"Host {found.host} is forced down{since}{by}{why}. {_owed(found)}"


def _owed(found: Fence) -> str:
    if not found.owes:
        return "It owes nothing."
    noun = "operation" if found.owes == 1 else "operations"
    owed = f"It owes {found.owes} undone {noun}, and cannot be up before its agent has paid."
    failed = [f"It could not do {one.call}: {one.why}" for one in found.unpaid]
    return " ".join([owed, *failed])


async def enable_host(settings: Settings, name: str) -> None:
    """Let a host have servers again, and move no more away. Raises NotFound."""
    await _ask(settings, "DELETE", _drain_path(name))
    click.echo(enabled(await _ask_fence(settings, name)))


def enabled(found: Fence) -> str:
    """Say what a host that was enabled may have, and what else keeps servers from it."""
    if not found.forced_down:
        return f"Host {found.host} may have servers again."
    return (
        f"Host {found.host} may have servers again once it is up: openstack compute service set "
        f"--up {found.host} nova-compute. Until then it is forced down. {_owed(found)}"
    )


async def _patiently(look: Callable[[], Awaitable[T]]) -> T:
    """Ask again while the cloud is being started anew: what it was at goes on."""
    for _ in range(int(_PATIENCE_S / _LOOK_S)):
        try:
            return await look()
        except Unavailable:
            await asyncio.sleep(_LOOK_S)
    return await look()


async def _ask_drain(settings: Settings, method: str, path: str) -> Drain:
    return typed.convert(await _ask(settings, method, path), Drain)


def _drain_path(name: str) -> str:
    return f"/compute/v2.1/mooring/drains/{quote(name, safe='')}"


def progress(found: Drain, words: Mapping[str, str] = _DRAINED) -> str:
    """Say how far the emptying of a host is, in one line."""
    counts = {
        words["moved"]: (found.moved, found.moved_stopped),
        "on the way": (found.moving, found.moving_stopped),
        "waiting": (found.waiting, 0),
        "staying": (len(found.left), 0),
    }
    said = ", ".join(
        f"{count} {what}" + (f" ({stopped} stopped)" if stopped else "")
        for what, (count, stopped) in counts.items()
    )
    said += f", {len(found.failed)} failed" if found.failed else ""
    status = words.get(found.status, found.status)
    return f"{found.host} {status}: {said}{'. ' if found.note else ''}{found.note}"


async def _ask(settings: Settings, method: str, path: str, body: bytes = b"") -> Any:
    url, login = await asyncio.to_thread(read_login, settings.state_path)
    network = Network(await asyncio.to_thread(read_authority, settings.state_path))
    try:
        user = ServiceUser(network, f"{url}/identity/v3", login, clock=RealClock())
        token = await token_of(user, url, settings.state_path)
        headers = {"X-Auth-Token": token, "content-type": "application/json"}
        answer = await ask(network, method, f"{url}{path}", headers, content=body, of=CLOUD)
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
