"""Reading a request's body: bounded in size and time, decoded strictly."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

import msgspec

from mooring import limits, typed
from mooring.errors import Invalid
from mooring.web.bodies import form_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Scope

    from mooring.web.api import Route, Version

# In JSON a backslash stands in a text only, so this finds the escape wherever the text is.
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")

_KEY_IN = "key` in `"
"""How msgspec begins the place of what is wrong when that is the key of a member."""


async def read(request: Request, most: int) -> bytes:
    """Return the body. Raises Invalid: 413 over `most` bytes, 408 when it does not come."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most:
        raise _too_large(most)
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.WEB_BODY_WAIT_S):
            async for chunk in request.stream():
                size += len(chunk)
                if size > most:
                    raise _too_large(most)
                chunks.append(chunk)
    except TimeoutError as error:
        raise Invalid(
            f"The request's body did not come within {limits.WEB_BODY_WAIT_S:g} seconds.",
            status=408,
        ) from error
    content = b"".join(chunks)
    check_texts(content, "The request's body")
    return content


def check_texts(content: bytes, what: str) -> None:
    """Raise Invalid for JSON with a text that no database takes: a NUL is in it."""
    if _NUL.search(content):
        raise _has_nul(what)


def check_url(scope: Scope) -> None:
    """Raise Invalid for what no database can look for: a NUL in path or query, or too much."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    if b"\0" in unquote_to_bytes(raw) or b"\0" in unquote_to_bytes(query):
        raise _has_nul("The URL")
    if query.count(b"&") >= limits.WEB_PARAMETERS:
        raise Invalid(
            f"The query has more than {limits.WEB_PARAMETERS} parameters. Ask for less at a time.",
        )


def check_media(route: Route, request: Request) -> None:
    """Raise Invalid with status 415 for a content type that `route` does not take."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media and media not in route.media:
        raise Invalid(
            f"The content type {media} is not supported here. Use {' or '.join(route.media)}.",
            status=415,
            media=route.media,
        )


def decode(
    route: Route, content: bytes | msgspec.Raw, version: Version, *, place: str = "$"
) -> Any:
    """Return the body as `route` types it. Raises Invalid, naming the field, if it does not fit."""
    form = form_of(route, version)
    if not content:
        raise Invalid("The request has no body. Send a JSON object.")
    try:
        return form.read(typed.decode(content, form.kind))
    except msgspec.ValidationError as error:
        raise Invalid(explain(str(error), place)) from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Invalid(
            "Malformed request body: it is not valid JSON.", private=str(error)
        ) from error


def decode_action(content: bytes) -> tuple[str, msgspec.Raw]:
    """Return name and value of an action's body. Raises Invalid unless it has exactly one key."""
    try:
        actions = typed.decode(content or b"null", dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise Invalid(
            "Malformed request body: it must be a JSON object.", private=str(error)
        ) from error
    if len(actions) != 1:
        raise Invalid(f"An action's body has exactly one key; this one has {len(actions)}.")
    return next(iter(actions.items()))


def explain(problem: str, place: str = "$") -> str:
    """Return what msgspec found wrong as users know it from OpenStack, naming the field."""
    reason, _, where = problem.partition(" - at `")
    if where.startswith(_KEY_IN):
        reason, where = f"{reason} as each key", where.removeprefix(_KEY_IN)
    field = (where.rstrip("`") or "$").replace("$", place, 1).removeprefix("$").lstrip(".")
    if not field:
        return f"Invalid input for the request's body. {reason}."
    return f"Invalid input for field/attribute {field}. {reason}."


def _has_nul(what: str) -> Invalid:
    return Invalid(f"{what} has a NUL character (U+0000) in a text, which is not allowed.")


def _too_large(most: int) -> Invalid:
    return Invalid(f"The request's body is larger than {most} bytes.", status=413)
