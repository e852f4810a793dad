"""The audit log: who logged in, was refused, or changed who may do what, and from where.

One line of JSON for each, in files that their owner alone may read. They are bounded: a full one is
kept beside the next one, four in all. docs/audit.md says what stands in it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from mooring import row_limits

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from mooring.errors import MooringError
    from mooring.web.api import Route
    from mooring.web.exchange import Exchange
    from mooring.who import Who

log = structlog.get_logger()
FILE = "audit.log"
"""Its name, in the state directory."""
STRANGERS = "audit-strangers.log"
"""Beside it: who showed no valid token. Anybody may fill this one, and pushes out nothing else."""
_LONGEST = 500
"""Most characters of a path or a reason: whoever asks chooses them."""
_REFUSALS = {401, 403, 429}
_WRITES = {"POST", "PUT", "PATCH", "DELETE"}
_LOGIN = "/auth/tokens"
_CONSOLES = "os_compute_api:os-remote-consoles"
_WORDS = ("reset", "force", "evacuate")
"""In the name of a rule or an action: what administrators do to others' things."""
_OPERATIONS = "/mooring/operations/{saga_id}/action"
_OVERRULED = ("abort", "retry")
_HOSTS = ("/os-services/", "/mooring/drains/", "/mooring/evacuations/", "/mooring/fences/")
"""Paths by which a host is shut, emptied, fenced, said to be dead or taken out."""


class AuditLog:
    """Appends to the file. One that cannot be written ends nothing, and the log says so."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def tell(self, exchange: Exchange, status: int, error: MooringError | None) -> None:
        """Write down a request that was answered, if it is one of those that are."""
        what = _kind(exchange, status)
        if not what:
            return
        client = exchange.request.client
        who, route = exchange.who, exchange.route
        known = {
            "user_id": who.user_id,
            "user": who.user_name,
            "project_id": who.project_id,
            "service_user_id": who.service_user_id,
        }
        line = {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "what": what,
            "service": exchange.face.service,
            "method": exchange.request.method,
            "path": exchange.path_told[:_LONGEST],
            "action": route.action if route else "",
            "status": status,
            **known,
            **exchange.told,
            "address": client.host if client else "",
            "request_id": exchange.request_id,
            "reason": (error.private or error.public)[:_LONGEST] if error else "",
        }
        is_login = exchange.face.service == "identity" and route and route.path == _LOGIN
        file = self._path
        if status == 401 and not who.user_id and not is_login:
            file = self._path.with_name(STRANGERS)
        self._append(file, {key: value for key, value in line.items() if value != ""})

    def note(
        self,
        what: str,
        request: HTTPConnection,
        status: int,
        who: Who | None = None,
        error: MooringError | None = None,
        **facts: str,
    ) -> None:
        """Write down what was asked of the control plane itself, beside its services."""
        known = {} if who is None else {"user_id": who.user_id, "user": who.user_name}
        line = {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "what": "refused" if status in _REFUSALS else what,
            "service": "mooring",
            "method": request.scope.get("method", "GET"),
            "path": request.url.path[:_LONGEST],
            "status": status,
            **known,
            **{name: fact[:_LONGEST] for name, fact in facts.items()},
            "address": request.client.host if request.client else "",
            "reason": (error.private or error.public)[:_LONGEST] if error else "",
        }
        is_stranger = who is None and error is not None
        file = self._path.with_name(STRANGERS) if is_stranger else self._path
        self._append(file, {key: value for key, value in line.items() if value != ""})

    def _append(self, file: Path, line: Mapping[str, Any]) -> None:
        content = msgspec.json.encode(line) + b"\n"
        try:
            _make_room(file)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            descriptor = os.open(file, flags, 0o600)
            try:
                os.write(descriptor, content)
            finally:
                os.close(descriptor)
        except OSError as error:
            log.warning("the audit log cannot be written", file=str(file), reason=str(error))


def _make_room(file: Path) -> None:
    if not file.exists() or file.stat().st_size < row_limits.AUDIT_FILE_BYTES:
        return
    kept = range(1, row_limits.AUDIT_FILES_KEPT + 1)
    names = [file, *(Path(f"{file}.{number}") for number in kept)]
    for older, newer in zip(reversed(names), reversed(names[:-1]), strict=False):
        if newer.exists():
            newer.replace(older)


def _kind(exchange: Exchange, status: int) -> str:
    """Return what a request is in the audit log, empty for what is not in it."""
    if status in _REFUSALS:
        return "refused"
    route, method = exchange.route, exchange.request.method
    if route is None or method not in _WRITES:
        return ""
    if exchange.face.service == "identity":
        if (method, route.path) == ("POST", _LOGIN):
            return "login"
        return "change"
    return _overruling(route)


def _overruling(route: Route) -> str:
    """Return what a write to another service is, empty for an ordinary one."""
    if route.path == _OPERATIONS:
        return "operation" if route.action in _OVERRULED else ""
    if route.path.startswith(_HOSTS):
        return "host"
    if route.policy == _CONSOLES:
        return "console"
    named = f"{route.policy or ''} {route.action}".lower()
    return "reset" if any(word in named for word in _WORDS) else ""
