"""The two dialects of PATCH: that of version 2.1 of the media type, and the older 2.0.

Source: facts/identity_image_placement.md 8.6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import ValidationError

from mooring import typed
from mooring.errors import Invalid
from mooring.image.images import Change

MEDIA_21 = "application/openstack-images-v2.1-json-patch"
MEDIA_20 = "application/openstack-images-v2.0-json-patch"
MEDIA = (MEDIA_21, MEDIA_20)
_OPERATIONS = ("add", "replace", "remove")


def read(entries: Sequence[Any], content_type: str) -> list[Change]:
    """Return the changes that a body asks for, in order. Raises Invalid, with 415 for its type."""
    media = content_type.partition(";")[0].strip().lower()
    if media not in MEDIA:
        raise Invalid(f"A change of an image comes as {' or '.join(MEDIA)}.", status=415)
    return [_read_21(entry) if media == MEDIA_21 else _read_20(entry) for entry in entries]


def _read_21(entry: Any) -> Change:
    fields = _fields(entry)
    op, path = fields.get("op"), fields.get("path")
    if op not in _OPERATIONS:
        raise Invalid(f"Unable to find 'op' in an operation: it must be one of {_OPERATIONS}.")
    if path is None:
        raise Invalid("Unable to find 'path' in an operation.")
    return _change(op, path, fields)


def _read_20(entry: Any) -> Change:
    fields = _fields(entry)
    found = [op for op in _OPERATIONS if op in fields]
    if len(found) != 1:
        raise Invalid(f"Operation objects must contain exactly one of {_OPERATIONS}.")
    return _change(found[0], fields[found[0]], fields)


def _change(op: str, path: Any, fields: dict[str, Any]) -> Change:
    name = _pointed(path)
    if op == "remove":
        return Change(op, name)
    if "value" not in fields:
        raise Invalid(f"Operation '{op}' on '{name}' needs a 'value'.")
    return Change(op, name, fields["value"])


def _fields(entry: Any) -> dict[str, Any]:
    try:
        return typed.convert(entry, dict[str, Any])
    except ValidationError as error:
        raise Invalid("Operations must be JSON objects.") from error


def _pointed(path: Any) -> str:
    """Return the attribute that a JSON pointer names: whole attributes only."""
    if not isinstance(path, str) or not path.startswith("/"):
        raise Invalid(f"Pointer {str(path)[:64]!r} must be a string that starts with '/'.")
    name = path[1:]
    if not name or "/" in name:
        raise Invalid(f"Pointer {path[:64]!r} must name one whole attribute.")
    if "~" in name.replace("~0", "").replace("~1", ""):
        raise Invalid(f"Pointer {path[:64]!r} has '~' without '0' or '1' behind it.")
    return name.replace("~1", "/").replace("~0", "~")
