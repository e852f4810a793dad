"""Values as clients of shares write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from mooring import limits
from mooring.errors import Invalid
from mooring.share.service import Asked
from mooring.web.words import Flag, flag, is_set, pairs, read_flag, whole_number

if TYPE_CHECKING:
    from mooring.share.service import Share
    from mooring.web.api import Call

__all__ = [
    "Flag",
    "Metadata",
    "Name",
    "Text",
    "asked",
    "check_metadata",
    "flag",
    "is_set",
    "pairs",
    "read_flag",
    "renamed",
    "renamed_action",
    "whole_number",
]

Name = Annotated[str, Meta(max_length=limits.VOLUME_NAME_LENGTH)]
Text = Annotated[str, Meta(max_length=1023)]
"""What Manila's columns hold of the value of an item of metadata, and of the reason of a lock."""
Metadata = dict[str, Text]
_FORMER, _RENAMED = (2, 6), (2, 7)
"""The last version in which actions and paths have `os-` before them, and the first without."""


def asked(call: Call[Share]) -> Asked:
    """Return on whose behalf the call is made."""
    return Asked(call.service, call.who, call.operation)


def check_metadata(metadata: Metadata) -> Metadata:
    """Return metadata whose keys are good ones. Raises Invalid."""
    for key in metadata:
        if not 0 < len(key.strip()) <= len(key) <= limits.VOLUME_NAME_LENGTH:
            raise Invalid(
                f"Invalid input for field/attribute metadata. Value: {key[:300]}. A key has 1 to "
                f"{limits.VOLUME_NAME_LENGTH} characters.",
            )
    return metadata


def renamed(verb: Callable[..., Any], path: str, *more: Any, **how: Any) -> Callable[[Any], Any]:
    """Register a route under its path, and up to 2.6 with `os-` before it.

    Source: facts/shared_file_systems.md 1.4.
    """

    def both(handler: Any) -> Any:
        verb(f"/os-{path[1:]}", *more, **{**how, "until": _FORMER})(handler)
        return verb(path, *more, **{**how, "since": _RENAMED})(handler)

    return both


def renamed_action(
    verb: Callable[..., Any], path: str, name: str, *more: Any, **how: Any
) -> Callable[[Any], Any]:
    """Register an action under its name, and up to 2.6 with `os-` before it."""

    def both(handler: Any) -> Any:
        verb(path, f"os-{name}", *more, **{**how, "until": _FORMER})(handler)
        return verb(path, name, *more, **{**how, "since": _RENAMED})(handler)

    return both
