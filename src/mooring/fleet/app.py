"""`/mooring/hosts`: what `mooring host` asks of a running cloud. For administrators alone."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
import structlog
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from mooring import certificates, typed
from mooring.errors import Conflict, Forbidden, Invalid, MooringError, NotFound
from mooring.fleet import removal, renewal
from mooring.limits import JOIN_BODY_BYTES
from mooring.web import faults
from mooring.web.identity import TokenValidator, who_from_request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from mooring.agent_api.client import Agents
    from mooring.fleet.fleet import Fleet
    from mooring.fleet.removal import Absent
    from mooring.fleet.tables import HostRow
    from mooring.web.audit import AuditLog
    from mooring.who import Who

    _Answer = Callable[[Request, Who], Awaitable[tuple[int, object]]]

log = structlog.get_logger()
PATH = "/mooring/hosts"
_RENEWAL = "/renewal"
_TOLD, _REFUSED = ("POST", "DELETE"), (401, 403)
BESIDE = "beside"
"""The status of a host that runs beside the control plane, on its machine."""
ABSENT = "absent"
"""That of one which did so, and with which the process that was asked is not started."""


class Invitation(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /mooring/hosts`."""

    name: str
    roles: list[str]


class Invited(Struct, frozen=True):
    """Its answer: what the host joins with, until when."""

    token: str
    until: datetime


class HostView(Struct, frozen=True, kw_only=True):
    """One host. Of one beside the control plane: its name, its silence, the roles that it tells.

    Of one that is absent: its name, and when it answered any process last, as its silence. Times
    are None until it has joined.
    """

    name: str
    roles: list[str] = []
    status: str
    address: str = ""
    invited_until: datetime | None = None
    joined_at: datetime | None = None
    certified_until: datetime | None = None
    fingerprint: str = ""
    """Of its certificate: SHA-256, in hex."""
    silent_since: datetime | None = None
    """As the process that was asked sees it."""
    in_the_clear: bool = False
    """Whether what its running guests have in memory can be read while they move."""


def build(
    fleet: Fleet | None,
    agents: Agents,
    validator: TokenValidator,
    joins_at: str,
    absent: Absent,
    *,
    audit: AuditLog | None = None,
) -> ASGIApp:
    """Return the application; without a fleet it knows the hosts beside it, and how to get one.

    `absent` knows the hosts that are neither asked here nor were invited. `audit` is told of hosts
    that are invited, renewed and removed.
    """

    async def answer(request: Request, who: Who) -> tuple[int, object]:
        if not who.is_admin:
            raise Forbidden("Hosts are an administrator's business.")
        name, method = request.url.path.removeprefix(PATH).strip("/"), request.method
        beside = [each for each in agents if fleet is None or fleet.is_beside(each)]
        if method == "GET" and not name:
            joined = [_view(fleet, row) for row in await fleet.hosts()] if fleet else []
            near = await asyncio.gather(*(_beside(agents, each) for each in beside))
            known = {one.name for one in (*joined, *near)}
            away = [one for one in await _away(absent) if one.name not in known]
            return 200, {"hosts": [*joined, *near, *away]}
        if (wanted := name.removesuffix(_RENEWAL)) in beside:
            return await _answer_for_neighbour(agents, method, wanted)
        gone = request.query_params.get("gone") == "true"
        if name and method in {"GET", "DELETE"} and not (fleet and await fleet.has(name)):
            return await _answer_for_absent(absent, method, name, gone=gone)
        if fleet is None:
            raise Conflict(
                "This cloud takes no hosts on other machines. Give every process of it the setting "
                "hosts_listen, as ADDRESS:PORT, and start it again."
            )
        if name:
            return await _answer_for_host(fleet, method, name, gone=gone)
        if method == "POST":
            asked = await _read(request)
            request.state.host = asked.name
            return 201, Invited(*await fleet.invite(asked.name, asked.roles, joins_at))
        raise NotFound(f"There is no {request.method} of {PATH}.")

    return _serving(answer, validator, audit)


def _serving(answer: _Answer, validator: TokenValidator, audit: AuditLog | None) -> ASGIApp:
    """Return the application that has requests answered, and tells of them."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        request, who, refused = Request(scope, receive), None, None
        request.state.host = request.url.path.removeprefix(PATH).strip("/").removesuffix(_RENEWAL)
        try:
            who = await who_from_request(request.headers, validator, "")
            status, body = await answer(request, who)
        except MooringError as error:
            status, refused = faults.code(error), error
            body = {"error": {"code": status, "message": error.public}}
        _tell(audit, request, status, who, refused)
        content = b"" if body is None else msgspec.json.encode(body)
        response = Response(content, status, media_type="application/json")
        await response(scope, receive, send)

    return application


def _tell(
    audit: AuditLog | None,
    request: Request,
    status: int,
    who: Who | None,
    refused: MooringError | None,
) -> None:
    if audit is not None and (request.method in _TOLD or status in _REFUSED):
        audit.note("host", request, status, who, refused, host=request.state.host)


async def _answer_for_neighbour(agents: Agents, method: str, name: str) -> tuple[int, object]:
    if method != "GET":
        raise Conflict(
            f"Host {name} runs beside the control plane, without an invitation or a certificate. "
            "Nothing was changed; it is in the cloud as long as the control plane is started with "
            "it, and can be removed a minute after that is started without it."
        )
    return 200, await _beside(agents, name)


async def _answer_for_absent(
    absent: Absent, method: str, name: str, *, gone: bool
) -> tuple[int, object]:
    if method == "DELETE":
        return 204, await absent.remove(name, gone=gone)
    for one in await _away(absent):
        if one.name == name:
            return 200, one
    raise NotFound(f"There is no host {name[:200]}; mooring host list names them all.")


async def _answer_for_host(
    fleet: Fleet, method: str, name: str, *, gone: bool
) -> tuple[int, object]:
    if method == "DELETE":
        await removal.remove(fleet, name, gone=gone)
        return 204, None
    if method == "POST" and name.endswith(_RENEWAL):
        name = name.removesuffix(_RENEWAL)
        await renewal.renew(fleet, name)
    elif method != "GET":
        raise NotFound(f"There is no {method} of {PATH}/{name[:200]}.")
    return 200, _view(fleet, await fleet.host(name))


def beside(hosts: ASGIApp, otherwise: ASGIApp) -> ASGIApp:
    """Return one application that hands the paths of hosts to `hosts`."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        chosen = hosts if path == PATH or path.startswith(f"{PATH}/") else otherwise
        await chosen(scope, receive, send)

    return application


async def _read(request: Request) -> Invitation:
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > JOIN_BODY_BYTES:
                raise Invalid("That is too long for an invitation.")
        return typed.decode(body, Invitation)
    except (ClientDisconnect, msgspec.MsgspecError) as error:
        raise Invalid(f"That is no invitation: {error}.") from error


async def _beside(agents: Agents, name: str) -> HostView:
    since = _silent(agents).get(name)
    roles = [] if since else await _ask_roles(agents, name)
    return HostView(name=name, roles=roles, status=BESIDE, silent_since=since)


async def _away(absent: Absent) -> list[HostView]:
    """Return every host that a service knows as one that is absent, by name."""
    heard = sorted((await absent.seen()).items())
    return [HostView(name=name, status=ABSENT, silent_since=at) for name, at in heard]


async def _ask_roles(agents: Agents, name: str) -> list[str]:
    """Return the roles that a host says it has; none of one that does not answer."""
    try:
        return list((await agents[name].last_heard()).roles)
    except MooringError as error:
        log.warning("a host did not tell its roles", host=name, reason=str(error))
        return []


def _silent(agents: Agents) -> dict[str, datetime | None]:
    return {each.host: each.since for each in agents.doors.silent()}


def _view(fleet: Fleet, row: HostRow) -> HostView:
    certificate = row.certificate.encode() if row.certificate else None
    return HostView(
        name=row.name,
        roles=list(row.roles),
        status=row.status,
        address=row.address or "",
        invited_until=row.token_until,
        joined_at=row.joined_at,
        certified_until=certificates.expiry(certificate) if certificate else None,
        fingerprint=certificates.fingerprint(certificate) if certificate else "",
        silent_since=_silent(fleet.agents).get(row.name),
        in_the_clear=row.name in fleet.in_the_clear,
    )
