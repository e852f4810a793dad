"""`mooring operations`: asks a running cloud what it does, as its administrator."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from mooring import typed
from mooring.access import read_authority, read_login, token_of
from mooring.clients.catalog import FixedCatalog
from mooring.clients.identity import ServiceUser
from mooring.clients.session import Session
from mooring.clients.transport import Network
from mooring.clock import RealClock
from mooring.errors import Conflict, MooringError, NotFound
from mooring.limits import IDENTITY_CACHE_S
from mooring.saga.operations import Operation, Summary

if TYPE_CHECKING:
    from mooring.config import Settings

SERVICES = ("compute", "volume", "share")
"""Those that declare sagas. They are named, because importing them takes longer than asking."""
SIGNS = {"forward": ">", "back": "<", "failing": "!", "leaving": "!", "owing": "$"}
"""How a timeline shows which way each step went."""
_WATCH_S = 0.5
_ENDED = ("done", "undone", "failed", "absorbed")
_ADVICE = "What waits for a silent host goes on when it answers. If it is gone for good, then"
_DOWN = (
    "- switch it off and force it down: openstack compute service set --down {host} nova-compute"
)
_RESET = "- reset what its volumes wait in: openstack volume set --state STATE VOLUME"
_ABORT = "- abort what can still turn back: mooring operations abort {operation}"


class RunningCloud:
    """The services of a running cloud that have operations."""

    def __init__(self, sessions: Mapping[str, Session]) -> None:
        self.sessions = sessions

    async def find(self, operation_id: str) -> tuple[Session, Operation]:
        """Return an operation and the service that has it. Raises NotFound."""
        for session in self.sessions.values():
            try:
                path = f"/mooring/operations/{quote(operation_id, safe='')}"
                answer = await session.request("GET", path, caller=None)
            except NotFound:
                continue
            return session, typed.convert(answer.json(), Operation)
        message = f"No service knows operation {operation_id}. What has ended is kept for 30 days."
        raise NotFound(message)


def own_services(network: Network, url: str, user: ServiceUser) -> dict[str, Session]:
    """Return the ways to the services below `url`.

    Not to those of the catalogue, which may have a real Nova: that one has no operations.
    """
    own = FixedCatalog({name: f"{url}/{name}" for name in SERVICES})
    return {
        name: Session(network, service=name, catalog=own, credentials=user, is_service=False)
        for name in SERVICES
    }


@asynccontextmanager
async def open_cloud(settings: Settings) -> AsyncGenerator[RunningCloud]:
    """Log in to the cloud of a state directory. Raises Unavailable when it does not run."""
    async with _logged_in(settings) as (network, url, user):
        yield RunningCloud(own_services(network, url, user))


@asynccontextmanager
async def open_identity(settings: Settings) -> AsyncGenerator[Session]:
    """Return the way to a running cloud's identity service. Raises Unavailable."""
    async with _logged_in(settings) as (network, url, user):
        own = FixedCatalog({"identity": f"{url}/identity/v3"})
        yield Session(network, service="identity", catalog=own, credentials=user, is_service=False)


@asynccontextmanager
async def _logged_in(settings: Settings) -> AsyncGenerator[tuple[Network, str, ServiceUser]]:
    url, login = read_login(settings.state_path)
    network = Network(read_authority(settings.state_path))
    user = ServiceUser(network, f"{url}/identity/v3", login, clock=RealClock())
    try:
        await token_of(user, url, settings.state_path)
        yield network, url, user
    finally:
        await network.aclose()


async def list_operations(cloud: RunningCloud, *, everything: bool) -> None:
    """Print the operations of all services, newest first."""
    query = "?all=true" if everything else ""
    found: list[Summary] = []
    silent: dict[str, str] = {}
    for session in cloud.sessions.values():
        answer = await session.request("GET", f"/mooring/operations{query}", caller=None)
        found += typed.convert(answer.json()["operations"], list[Summary])
        silent |= typed.convert(answer.json()["silent_hosts"], dict[str, str])
    if any(one.status not in _ENDED for one in found):
        _say_silent(silent, [one.id for one in found if one.waits and one.may_abort])
    found.sort(key=lambda one: one.created_at, reverse=True)
    rows = [("ID", "OPERATION", "STATUS", "AT STEP", "SINCE", "ON", "WAITS")]
    for one in found:
        step = "-" if one.status in _ENDED else _place(one.step, one.item)
        since, keys = _time(one.created_at), " ".join(one.locks)
        rows.append((one.id, one.name, one.status, step, since, keys, one.waits))
    _say(_columns(rows) if found else "Nothing is going on.")


def _say_silent(silent: Mapping[str, str], may_abort: Sequence[str]) -> None:
    """Name the silent hosts, and what helps whoever waits for them."""
    for said in silent.values():
        _say(said)
    if not silent:
        return
    _say(_ADVICE)
    for host in silent:
        _say(_DOWN.format(host=host))
    _say(_RESET)
    for operation in may_abort:
        _say(_ABORT.format(operation=operation))


async def show_operation(cloud: RunningCloud, operation_id: str) -> None:
    """Print one operation with its timeline."""
    _, found = await cloud.find(operation_id)
    _print(found)


async def watch_operation(cloud: RunningCloud, operation_id: str) -> int:
    """Print the attempts of an operation as they come, until it ends; return 0 when it was done."""
    seen = 0
    while True:
        _, found = await cloud.find(operation_id)
        for line in found.timeline[seen:]:
            _say(_line(line))
        seen = len(found.timeline)
        if found.operation.status in _ENDED:
            _say(f"{found.operation.name} is {found.operation.status}.")
            return 0 if found.operation.status == "done" else 1
        await asyncio.sleep(_WATCH_S)


async def act(cloud: RunningCloud, operation_id: str, what: str) -> int:
    """Abort or retry an operation. Raises NotFound, or Conflict when that is not possible."""
    session, _ = await cloud.find(operation_id)
    path = f"/mooring/operations/{operation_id}/action"
    try:
        await session.request("POST", path, caller=None, json={what: None})
    except Conflict as error:
        raise MooringError(error.public) from error
    _say(f"Asked for it. See what comes of it: mooring operations watch {operation_id}")
    return 0


async def revoke_all_tokens(settings: Settings) -> None:
    """End every token of the cloud."""
    async with open_identity(settings) as identity:
        await identity.request("DELETE", "/mooring/tokens", caller=None)
    _say(f"All tokens have ended. Each process has the new keys within {IDENTITY_CACHE_S:g} s.")


async def rotate_token_keys(settings: Settings) -> None:
    """Have tokens made with the next key."""
    async with open_identity(settings) as identity:
        await identity.request("POST", "/mooring/tokens/keys", caller=None)
    _say(
        "Tokens are made with another key from now on. Those of before stand until they expire, or "
        "until their key goes with a third rotation."
    )


def _print(found: Operation) -> None:
    one = found.operation
    facts = {
        "operation": one.name,
        "id": one.id,
        "status": one.status,
        "at step": _place(one.step, one.item),
        "progress": f"{one.progress} %",
        "on": " ".join(one.locks),
        "waits": one.waits,
        "project": one.project_id,
        "request": one.request_id,
        "started": _time(one.created_at),
        "ended": _time(one.ended_at) if one.ended_at else "",
        "error": one.error,
    }
    _say(_columns([(name, value) for name, value in facts.items() if value]))
    for line in found.timeline:
        _say(_line(line))


def _columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as text in columns, nothing cut off: for eyes and for grep alike."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def _say(text: str) -> None:
    click.echo(text)
    sys.stdout.flush()


def _line(line: Any) -> str:
    text = f"{_time(line.started_at)} {SIGNS[line.heading]} {_place(line.step, line.item)}"
    text += f" (attempt {line.attempt})" if line.attempt > 1 else ""
    return f"{text}: {line.result}, {line.duration_ms} ms" + (
        f": {line.error}" if line.error else ""
    )


def _place(step: str, item: str) -> str:
    return f"{step} {item}" if item else step


def _time(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")
