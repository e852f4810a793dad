"""What a volume service says of its versions. Source: facts/block_storage.md 7.1."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from mooring import typed
from mooring.errors import Unavailable


class _Version(Struct, frozen=True):
    id: str = ""
    version: str = ""


class _Versions(Struct, frozen=True):
    versions: list[_Version]


def find_newest(document: Any) -> tuple[int, int]:
    """Return the newest microversion of a version document; (3, 0) when it names none.

    Raises Unavailable when it is none.
    """
    try:
        versions = typed.convert(document, _Versions).versions
    except msgspec.ValidationError as error:
        raise Unavailable(
            "The volume service does not tell its versions; ask its operator.",
            private=str(error),
        ) from error
    newest = [one.version.split(".") for one in versions if one.id.startswith("v3")]
    return max(
        ((int(major), int(minor)) for major, minor in newest if major and minor),
        default=(3, 0),
    )
