"""From a service's refusal back to one of the nine kinds of error, whichever shape it has."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any

import msgspec

from mooring import typed
from mooring.errors import (
    Conflict,
    Forbidden,
    Invalid,
    MooringError,
    NotFound,
    OverQuota,
    Unauthenticated,
    Unavailable,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

BUSY_HEADER = "mooring-busy"
"""Set on a 409 that will pass by itself: the id of the operation that holds the resource, or 1."""


class _Fault(msgspec.Struct):
    message: str = ""
    detail: str = ""
    code: Any = ""


_KINDS: dict[int, type[MooringError]] = {
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    408: Unavailable,
    409: Conflict,
    410: Conflict,
    412: Conflict,
    413: OverQuota,
    429: Unavailable,
}
_RETRIED_BY_PLACEMENT = "placement.concurrent_update"
_TAG = re.compile(r"<[^>]*>")


def refusal(
    service: str, request: str, status: int, headers: Mapping[str, str], content: bytes
) -> MooringError:
    """Return the error that an answer of 300 or more stands for.

    Everything below 500 is definite, nothing was made, except 408, 429 and a busy 409; those and
    what is 500 or more may have happened. `detail["http_status"]` is the status as it came,
    `detail["code"]` placement's own code. `service` and `request` are for the messages.
    """
    message, code = _explain(headers.get("content-type", ""), content)
    kind = _KINDS.get(status) or (Invalid if 400 <= status < 500 else Unavailable)
    private = f"{request} was answered {status}: {message}"
    if kind is Unavailable:
        public = f"The {service} service cannot answer now."
    else:
        public = message or f"The {service} service refused with {status}."
    detail: dict[str, Any] = {"http_status": status}
    if code:
        detail["code"] = code
    if status == 409 and (BUSY_HEADER in headers or code == _RETRIED_BY_PLACEMENT):
        detail["busy"] = True
    return kind(public, private=private, **detail)


def _explain(media: str, content: bytes) -> tuple[str, str]:
    """Return the message of a fault body and placement's code, each empty when there is none."""
    if "json" not in media:
        text = html.unescape(_TAG.sub(" ", content[:4096].decode("utf-8", "replace")))
        return " ".join(text.split()), ""
    try:
        body = typed.decode(content, dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return "", ""
    inner: Any = body if "message" in body else next(iter(body.values()), None)
    try:
        faults = typed.convert(inner, list[_Fault] | _Fault)
    except msgspec.ValidationError:
        return "", ""
    fault = faults if isinstance(faults, _Fault) else next(iter(faults), _Fault())
    return fault.message or fault.detail, str(fault.code) if fault.detail else ""
