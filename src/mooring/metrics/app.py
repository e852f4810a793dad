"""`/metrics`: what an operator watches, in Prometheus's text format, for whoever has the token.

The token lies in the state directory, in a file that its owner alone may read. Prometheus's client
library is imported by the first scrape: a cloud that nobody scrapes does not pay for it.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import stat
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from mooring.errors import Invalid, MooringError
from mooring.metrics.reading import Watched, read
from mooring.secret_file import ensure_secret

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.types import ASGIApp, Receive, Scope, Send

PATH = "/metrics"
FILE = "metrics.token"
"""The file that has the token, in the state directory."""
_ENTROPY_BYTES = 32
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def ensure_token(path: Path) -> str:
    """Return the token in a file, which is made when it is missing.

    Raises Invalid when somebody else than its owner may use the file, or it is empty.
    """
    try:
        content = ensure_secret(path, _make_token)
        if path.stat().st_mode & _OTHERS:
            raise Invalid(f"Others may read {path}: chmod 600 it, and better make a new token.")
        token = content.decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{path} cannot be read: {error}. Remove it to get a new one.") from error
    if not token:
        raise Invalid(f"{path} is empty. Remove it to get a new one.")
    return token


def _make_token() -> bytes:
    return f"{secrets.token_urlsafe(_ENTROPY_BYTES)}\n".encode()


def build(watched: Watched, token: str) -> ASGIApp:
    """Return the application."""
    wanted = f"Bearer {token}".encode()

    async def answer(request: Request) -> Response:
        if request.url.path.rstrip("/") != PATH or request.method not in ("GET", "HEAD"):
            return PlainTextResponse("There is nothing here.\n", 404)
        given = request.headers.get("authorization", "").encode("latin-1")
        if not hmac.compare_digest(given, wanted):
            said = {"www-authenticate": "Bearer"}
            return PlainTextResponse("The token of metrics is needed.\n", 401, said)
        try:
            seen = await read(watched)
        except MooringError as error:
            return PlainTextResponse(f"{error.public}\n", 503)
        from mooring.metrics.exposition import MEDIA, expose

        return Response(await asyncio.to_thread(expose, seen), media_type=MEDIA)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        response = await answer(Request(scope, receive))
        await response(scope, receive, send)

    return application
