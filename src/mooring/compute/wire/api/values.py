"""The lenient values of compute's bodies and queries, and what they mean.

OpenStack takes booleans and whole numbers as JSON and as text; what is neither is 400.
"""

from __future__ import annotations

import ipaddress
import re
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta, UnsetType

from mooring.compute.wire.fields import LARGEST
from mooring.errors import Invalid
from mooring.web import words

TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})
FALSE = frozenset({"0", "f", "false", "off", "n", "no"})
_WORD = r"^(?:[Tt]rue|TRUE|1|[Oo]n|ON|[Yy]es|YES|[Ff]alse|FALSE|0|[Oo]ff|OFF|[Nn]o|NO)\Z"
_SEEN = r"[^\x00-\x1f\x7f-\x9f]"

Truth = bool | Annotated[str, Meta(pattern=_WORD)]
"""A boolean, or one of OpenStack's words for it."""

TruthOrAuto = bool | Annotated[str, Meta(pattern=rf"^auto\Z|{_WORD}")]
"""A boolean, one of OpenStack's words for it, or `auto`."""

Whole = int | Annotated[str, Meta(pattern=r"^-?[0-9]+\Z", max_length=11)]
"""A whole number, or the same as text; its range is checked by `whole`."""

Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=rf"^(?!\s){_SEEN}+(?<!\s)\Z")]
"""Printable text without spaces around it."""

Described = Annotated[str, Meta(max_length=255, pattern=r"^(?:[^\x00-\x1f\x7f-\x9f]|[\r\n\t])*\Z")]
"""A description, which may have lines."""

DiskConfig = Literal["AUTO", "MANUAL"]
MetadataKey = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9_:. -]+\Z")]
MetadataValue = Annotated[str, Meta(max_length=255)]
Metadata = dict[MetadataKey, MetadataValue]


def truth(value: bool | str) -> bool:  # noqa: FBT001  (it is the value itself)
    """Return what a checked `Truth` means."""
    return value if isinstance(value, bool) else value.lower() in TRUE


def read_truth(text: str, name: str) -> bool:
    """Return what a query's text means. Raises Invalid, naming the parameter."""
    word = text.strip().lower()
    if word in TRUE or word in FALSE:
        return word in TRUE
    raise Invalid(f"Invalid value '{text}' for {name}: it must be true or false.")


def whole(value: int | str, name: str, *, least: int = 0, most: int = LARGEST) -> int:
    """Return a whole number within its bounds. Raises Invalid, naming the field."""
    text = str(value).strip()
    if not re.fullmatch(r"-?[0-9]{1,19}", text) or not least <= int(text) <= most:
        raise Invalid(
            f"Invalid input for field/attribute {name}. Value: {text[:32]}. "
            f"It must be a whole number from {least} to {most}."
        )
    return int(text)


def canonical_uuid(text: str) -> str | None:
    """Return a uuid in its dashed form, or None when the text is none."""
    try:
        return str(UUID(text))
    except ValueError:
        return None


def with_dashes(text: str) -> str:
    """Return a uuid in its dashed form, in the letters in which it was sent.

    The id of another service's resource: whether capitals name the same one is for that to say.
    """
    plain = text.replace("-", "")
    return "-".join((plain[:8], plain[8:12], plain[12:16], plain[16:20], plain[20:]))


def address(value: str, name: str, version: Literal[4, 6]) -> str:
    """Return an IP address of that version in its short form (RFC 5952). Raises Invalid.

    A scope (`%eth0`) says nothing to another machine, and may be any text: it is refused.
    """
    try:
        parsed = ipaddress.ip_address(value)
    except ValueError:
        parsed = None
    if parsed is None or parsed.version != version or "%" in value:
        raise Invalid(
            f"Invalid input for field/attribute {name}. Value: {value[:64]}. "
            f"It is not an IPv{version} address."
        )
    return parsed.compressed


def access_address(value: str | UnsetType, name: str, version: Literal[4, 6]) -> str | UnsetType:
    """Return what `address` does; what is empty or was not given stays so."""
    return address(value, name, version) if value else value


def moment(text: str, name: str) -> datetime:
    """Return a query's time; without a zone it is UTC. Raises Invalid, naming the parameter."""
    try:
        # A plus sign of the zone arrives as a space when the client did not encode it.
        return words.instant(text.strip().replace(" ", "T" if "T" not in text else "+"))
    except ValueError as error:
        raise Invalid(f"Invalid input for query parameter {name}: {text} is no time.") from error


def last_moment(text: str, name: str) -> datetime:
    """Return the last moment that a query's time may mean: clients see whole seconds.

    What happened within a second that was shown happened before its end. Raises as `moment`.
    """
    found = moment(text, name)
    return found if found.microsecond else found.replace(microsecond=999_999)


def second(value: datetime | None) -> str | None:
    """Write a time to the second: 2026-01-01T00:00:00Z."""
    return None if value is None else value.isoformat()[:19] + "Z"


def microsecond(value: datetime | None) -> str | None:
    """Write a time to the microsecond, without a zone: 2026-01-01T00:00:00.000000."""
    return None if value is None else value.isoformat(timespec="microseconds")[:26]
