"""Reading a request's body: bounded in size and time, decoded strictly."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from mooring import limits, typed
from mooring.errors import Invalid

if TYPE_CHECKING:
    from starlette.requests import Request

    from mooring.web.api import Route


async def read(request: Request) -> bytes:
    """Return the body. Raises Invalid with status 413 over the limit, 408 when it does not come."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limits.WEB_BODY_BYTES:
        raise _too_large()
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.WEB_BODY_WAIT_S):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limits.WEB_BODY_BYTES:
                    raise _too_large()
                chunks.append(chunk)
    except TimeoutError as error:
        raise Invalid(
            f"The request's body did not come within {limits.WEB_BODY_WAIT_S:g} seconds.",
            status=408,
        ) from error
    return b"".join(chunks)


def check_media(route: Route, request: Request) -> None:
    """Raise Invalid with status 415 for a content type that `route` does not take."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media and media not in route.media:
        raise Invalid(
            f"The content type {media} is not supported here. Use {' or '.join(route.media)}.",
            status=415,
        )


def decode(route: Route, content: bytes | msgspec.Raw, *, place: str = "$") -> Any:
    """Return the body as `route` types it. Raises Invalid, naming the field, if it does not fit."""
    if not content:
        raise Invalid("The request has no body. Send a JSON object.")
    try:
        return typed.decode(content, route.body)
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
    field = (where.rstrip("`") or "$").replace("$", place, 1).removeprefix("$").lstrip(".")
    if not field:
        return f"Invalid input for the request's body. {reason}."
    return f"Invalid input for field/attribute {field}. {reason}."


def _too_large() -> Invalid:
    return Invalid(f"The request's body is larger than {limits.WEB_BODY_BYTES} bytes.", status=413)
