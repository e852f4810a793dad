"""The nine kinds of error. No HTTP in here: `mooring.web.faults` makes each service's body.

An error has two messages. The public one is read by the user who asked: what failed, what the
state is now, what to do next. The private one is for the log and for operators.
"""

from __future__ import annotations

from typing import Any, ClassVar


class MooringError(Exception):
    """The root of the nine kinds. `detail` has the few facts a body needs beside the message."""

    kind: ClassVar[str] = "bug"

    def __init__(self, public: str, *, private: str = "", **detail: Any) -> None:
        super().__init__(public)
        self.public = public
        self.private = private
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.public} ({self.private})" if self.private else self.public


class Invalid(MooringError):
    """What was asked makes no sense, whatever the state."""

    kind = "invalid"


class Unauthenticated(MooringError):
    """Nobody we know asked."""

    kind = "unauthenticated"


class Forbidden(MooringError):
    """Known, and not allowed."""

    kind = "forbidden"


class NotFound(MooringError):
    """It does not exist, or not for the one who asks."""

    kind = "not_found"


class Conflict(MooringError):
    """The state of the thing forbids it now."""

    kind = "conflict"


class OverQuota(MooringError):
    """The project has used what it may use."""

    kind = "over_quota"


class NoCapacity(MooringError):
    """No host, pool or disk has room."""

    kind = "no_capacity"


class Unavailable(MooringError):
    """Somebody did not answer, or said "later". It may or may not have happened: ask again."""

    kind = "unavailable"


class Bug(MooringError):
    """Our own mistake."""

    kind = "bug"


KINDS: dict[str, type[MooringError]] = {
    error.kind: error
    for error in (
        Invalid,
        Unauthenticated,
        Forbidden,
        NotFound,
        Conflict,
        OverQuota,
        NoCapacity,
        Unavailable,
        Bug,
    )
}


def told_also(error: MooringError, **detail: Any) -> MooringError:
    """Return the same error with further facts in its detail."""
    kind = KINDS[error.kind]
    return kind(error.public, private=error.private, **{**error.detail, **detail})


def to_record(error: BaseException) -> dict[str, Any]:
    """Return an error as plain data, to outlive the process: kind, public, private, detail."""
    if isinstance(error, MooringError):
        return {
            "kind": error.kind,
            "public": error.public,
            "private": error.private,
            "detail": error.detail,
        }
    private = f"{type(error).__name__}: {error}"
    public = "An internal error occurred."
    return {"kind": "bug", "public": public, "private": private, "detail": {}}


def from_record(record: dict[str, Any]) -> MooringError:
    """Return the error that `to_record` wrote down."""
    error = KINDS.get(record.get("kind", "bug"), Bug)
    return error(
        record.get("public", ""), private=record.get("private", ""), **record.get("detail", {})
    )
