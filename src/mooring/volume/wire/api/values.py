"""Values as clients write them: numbers in strings, booleans in words, filters in query strings."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, cast, get_args

from msgspec import Meta

from mooring import limits
from mooring.errors import Invalid
from mooring.volume.attachments.reserving import Asked
from mooring.volume.volumes.listing import Compare, Moment
from mooring.web.words import Flag, flag, instant, is_set, pairs, read_flag, whole_number

if TYPE_CHECKING:
    from mooring.volume.service import Volume
    from mooring.web.api import Call

__all__ = [
    "Flag",
    "Metadata",
    "Name",
    "Uuid",
    "asked",
    "check_metadata",
    "flag",
    "is_set",
    "moments",
    "pairs",
    "read_flag",
    "user_metadata",
    "whole_number",
]

Name = Annotated[str, Meta(max_length=limits.VOLUME_NAME_LENGTH)]
Metadata = dict[str, Name]
Uuid = Annotated[
    str,
    Meta(
        pattern=r"^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}$"
    ),
]

_SHOWN = frozenset(("readonly", "attached_mode"))
_EXTENDS = frozenset(("extend_new_size", "extend_reservations"))


def asked(call: Call[Volume]) -> Asked:
    """Return on whose behalf the call is made."""
    return Asked(call.service, call.who, call.operation)


def check_metadata(metadata: dict[str, str]) -> dict[str, str]:
    """Return metadata whose keys are good ones. Raises Invalid."""
    for key in metadata:
        good = 0 < len(key) <= limits.VOLUME_NAME_LENGTH and all(
            letter.isalnum() or letter in "-_.:/ " for letter in key
        )
        if not good:
            raise Invalid(
                f"Invalid input for field/attribute metadata. Value: {key[:300]}. A key has 1 to "
                f"{limits.VOLUME_NAME_LENGTH} letters, digits, spaces or any of - _ . : /.",
            )
    return metadata


def user_metadata(metadata: dict[str, str]) -> dict[str, str]:
    """Return what a user may store of it: without what is shown among it and is not the user's.

    Raises Invalid for what only an extend may write (facts/block_storage.md 3.4).
    """
    forbidden = sorted(_EXTENDS & metadata.keys())
    if forbidden:
        raise Invalid(
            f"Invalid input for field/attribute metadata. Value: {', '.join(forbidden)}. What "
            "begins so belongs to the extending of volumes. Nothing was changed; use another key.",
        )
    return {key: text for key, text in check_metadata(metadata).items() if key not in _SHOWN}


def moments(text: str, column: str, *, comparisons: bool) -> list[Moment]:
    """Read a filter on a time, from 3.60 on as `gt:<time>,lt:<time>`. Raises Invalid."""
    if not comparisons:
        return [Moment(column, "eq", _time(text, column))]
    found: list[Moment] = []
    parts = text.split(",")
    if len(parts) > limits.WEB_CONDITIONS:
        raise Invalid(
            f"Invalid input received: {column} has more than {limits.WEB_CONDITIONS} conditions.",
        )
    for part in parts:
        word, colon, rest = part.partition(":")
        if colon and word in get_args(Compare):
            found.append(Moment(column, cast("Compare", word), _time(rest, column)))
        else:
            found.append(Moment(column, "eq", _time(part, column)))
    return found


def _time(text: str, name: str) -> datetime:
    try:
        return instant(text)
    except ValueError as error:
        raise Invalid(
            f"Invalid input received: Invalid {name} value '{text}'. Use ISO 8601.",
        ) from error
