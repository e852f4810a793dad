"""How errors cross between agent and client: a status and `{kind, public, private, detail}`."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from mooring import errors, typed

STATUS: dict[str, int] = {
    "invalid": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "not_found": 404,
    "conflict": 409,
    "over_quota": 413,
    "bug": 500,
    "unavailable": 503,
    "no_capacity": 507,
}
_KIND = {status: kind for kind, status in STATUS.items()} | {
    410: "conflict",
    412: "conflict",
}


class _Record(Struct, frozen=True):
    """What may stand in a body; a host may write anything."""

    kind: str = ""
    public: str = ""
    private: str = ""
    detail: dict[str, Any] = {}


def body_of(error: BaseException) -> bytes:
    """Return an error as the JSON body that `error_of` reads."""
    return msgspec.json.encode(errors.to_record(error))


def error_of(status: int, body: bytes, host: str) -> errors.MooringError:
    """Return the error behind an answer of 400 or more, whoever wrote it."""
    try:
        record = typed.decode(body, _Record)
    except msgspec.DecodeError:
        record = _Record()
    if record.kind in errors.KINDS and not record.detail.keys() & {"public", "private"}:
        return errors.from_record(msgspec.to_builtins(record))
    kind = _KIND.get(status, "unavailable" if status >= 500 else "invalid")
    said = body[:200].decode("utf-8", "replace")
    return errors.KINDS[kind](
        f"The agent on host {host} answered {status}.", private=said, status=status
    )
