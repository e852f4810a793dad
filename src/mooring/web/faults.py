"""From the nine kinds of error to the fault bodies of each OpenStack service."""

from __future__ import annotations

import html
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.errors import MooringError
    from mooring.web.face import Fault

CODES = {
    "invalid": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "not_found": 404,
    "conflict": 409,
    "over_quota": 413,
    "no_capacity": 400,
    "unavailable": 503,
    "bug": 500,
}
"""The status code of each kind; a face may have others, and `detail["status"]` wins over both."""

_NAMES = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    405: "badMethod",
    409: "conflictingRequest",
    413: "overLimit",
    415: "badMediaType",
    429: "overLimit",
    501: "notImplemented",
    503: "serviceUnavailable",
}
_TITLES = {413: "Request Entity Too Large", 504: "Gateway Timeout"}


def code(error: MooringError, codes: Mapping[str, int] = CODES) -> int:
    """Return the status code of `error`, where kinds have those of `codes`, else those of CODES."""
    status = error.detail.get("status")
    if isinstance(status, int):
        return status
    return codes.get(error.kind) or CODES[error.kind]


def title(status: int) -> str:
    """Return the reason phrase of a status code."""
    return _TITLES.get(status) or HTTPStatus(status).phrase


def named(fault: Fault) -> tuple[str, bytes]:
    """Shape a fault of compute, volume or share: `{"itemNotFound": {"code", "message"}}`."""
    body: dict[str, Any] = {"code": fault.status, "message": fault.message}
    if fault.status in (413, 429):
        body["retryAfter"] = "0"
    return _json({_NAMES.get(fault.status, "computeFault"): body})


def titled(fault: Fault) -> tuple[str, bytes]:
    """Shape a fault of identity: `{"error": {"code", "message", "title"}}`.

    The error's detail `identity` stands beside them where a login is told which methods exist.
    """
    body: dict[str, Any] = {
        "code": fault.status,
        "message": fault.message,
        "title": fault.title,
    }
    if "identity" in fault.error.detail:
        body["identity"] = fault.error.detail["identity"]
    return _json({"error": body})


def image(fault: Fault) -> tuple[str, bytes]:
    """Shape a fault of image: HTML, unless the request shows a JSON type."""
    status = f"{fault.status} {fault.title}"
    # Apostrophes stay, as clients strip the tags and print the rest as it is.
    text = html.escape(fault.message, quote=False)
    if fault.wants_json:
        return _json({"message": text, "code": status, "title": fault.title})
    page = (
        f"<html>\n <head>\n  <title>{status}</title>\n </head>\n <body>\n"
        f"  <h1>{status}</h1>\n  {text}<br /><br />\n\n\n </body>\n</html>"
    )
    return "text/html; charset=UTF-8", page.encode()


def listed(fault: Fault) -> tuple[str, bytes]:
    """Shape a fault of placement: `{"errors": [...]}`, with a machine's code from 1.23 on.

    The error's detail `code` is that code.
    """
    error: dict[str, Any] = {
        "status": fault.status,
        "title": fault.title,
        "detail": fault.message,
        "request_id": fault.request_id,
    }
    if fault.version >= (1, 23):
        error["code"] = str(fault.error.detail.get("code", "placement.undefined_code"))
    if fault.status == 406:
        error["max_version"], error["min_version"] = fault.maximum, fault.minimum
    return _json({"errors": [error]})


def _json(body: Any) -> tuple[str, bytes]:
    return "application/json", msgspec.json.encode(body)
