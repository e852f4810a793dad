"""Which microversion rules a request, and how the answer says so.

Source: facts/compute.md 9.1, facts/block_storage.md 7.2, facts/identity_image_placement.md 9.1.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mooring.errors import Invalid
from mooring.web.versions import text

if TYPE_CHECKING:
    from starlette.datastructures import Headers

    from mooring.web.api import Version
    from mooring.web.face import Face

HEADER = "OpenStack-API-Version"
_FORM = re.compile(r"([1-9]\d{0,5})\.(0|[1-9]\d{0,5})")


class UnknownVersion(Invalid):
    """The version asked for is outside the range; answered 406, echoing `requested`."""

    def __init__(self, face: Face, requested: Version) -> None:
        super().__init__(
            f"Version {text(requested)} is not supported by the API. "
            f"Minimum is {text(face.minimum)} and maximum is {text(face.maximum)}.",
            status=406,
        )
        self.requested = requested


def negotiate(face: Face, headers: Headers) -> Version:
    """Return the version that the headers ask for, the minimum when they ask for none.

    Raises Invalid for a malformed header, UnknownVersion for one outside the range.
    """
    if not face.has_versions:
        return (0, 0)
    asked = _asked(face, headers)
    if asked is None:
        return face.minimum
    if asked == "latest":
        return face.maximum
    match = _FORM.fullmatch(asked)
    if match is None:
        raise Invalid(
            f"API Version String {asked} is of invalid format. Must be of format MajorNum.MinorNum."
        )
    version = (int(match[1]), int(match[2]))
    if not face.minimum <= version <= face.maximum:
        raise UnknownVersion(face, version)
    return version


def answer_headers(face: Face, version: Version | None) -> dict[str, str]:
    """Return the headers that echo the version; none where there is none to echo."""
    if version is None or not face.has_versions:
        return {}
    older = face.legacy_header.lower()
    if face.ignores_common_header:
        return {older: text(version), "vary": face.legacy_header}
    echo = {HEADER.lower(): f"{face.service} {text(version)}", "vary": HEADER}
    if face.legacy_header:
        echo |= {older: text(version), "vary": f"{HEADER}, {face.legacy_header}"}
    return echo


def _asked(face: Face, headers: Headers) -> str | None:
    if face.ignores_common_header:
        older = headers.get(face.legacy_header)
        return None if older is None else older.strip().lower()
    named = ",".join(headers.getlist(HEADER))
    for entry in named.split(","):
        words = entry.split()
        if not words:
            continue
        if len(words) != 2:
            raise Invalid(f"The header {HEADER} is malformed: it names a service and a version.")
        if words[0].lower() == face.service:
            return words[1].lower()
    if named.strip() and face.unnamed_is_invalid:
        raise Invalid(f"The header {HEADER} has no entry for the service {face.service}.")
    if face.legacy_header and face.legacy_header in headers:
        return headers[face.legacy_header].strip().lower()
    return None
