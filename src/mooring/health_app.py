"""`/healthz`: whether this process works, for whoever restarts it or sends it requests.

503 names operations that this release has no definition of: another release must end them. Hosts
that do not answer are named with since when; they are no reason to restart anything here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from mooring.bulkhead import Bulkheads
    from mooring.saga.engine import Engine


def build(engines: Mapping[str, Engine[Any]], doors: Bulkheads) -> ASGIApp:
    """Return the application. It asks no token and tells no secret."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        unknown = {
            name: sorted(engine.schedule.unknown)
            for name, engine in engines.items()
            if engine.schedule.unknown
        }
        body = {
            "status": "unknown operations" if unknown else "ok",
            "operations": unknown,
            "silent_hosts": {each.host: f"{each.since:%FT%TZ}" for each in doors.silent()},
        }
        response = JSONResponse(body, status_code=503 if unknown else 200)
        await response(scope, receive, send)

    return application
