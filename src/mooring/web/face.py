"""What differs between OpenStack services on the wire: headers, versions, codes, fault bodies.

Source: facts/identity_image_placement.md 1.2 and 8.8, facts/compute.md 9 and 11.6,
facts/block_storage.md 7 and 9.1, facts/shared_file_systems.md 1.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mooring.limits import WEB_BODY_BYTES
from mooring.web import unbuilt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mooring.errors import MooringError
    from mooring.web.api import Version
    from mooring.web.unbuilt import Unbuilt


class Fault(Struct, frozen=True, kw_only=True):
    """One refusal, before it has a service's shape."""

    status: int
    title: str
    message: str
    request_id: str
    error: MooringError
    """What is refused, as it was raised; its private part is for an agent's own callers alone."""
    wants_json: bool = True
    minimum: str = ""
    maximum: str = ""
    version: Version = (0, 0)


class Document(Struct, frozen=True):
    """One version document: its status code and JSON body.

    One that `has_version` is asked for in a microversion as everything else, and says which.
    """

    status: int
    body: dict[str, Any]
    has_version: bool = False


class Face(Struct, frozen=True, kw_only=True):
    """How one service looks from outside.

    `maximum` is the newest microversion whose duties are built; it may be capped by a setting
    (`msgspec.structs.replace(COMPUTE, maximum=...)`).
    """

    service: str
    """The word in `OpenStack-API-Version`, and the log's name for the service."""
    segment: str
    """The version segment between the service's root and its routes; empty for placement."""
    shape: Callable[[Fault], tuple[str, bytes]]
    """Makes the content type and body of a fault."""
    documents: Callable[[Face, str], Mapping[str, Document]]
    """Makes the version documents for a root URL, by path under the root (without a last slash)."""
    codes: Mapping[str, int] = {}
    """Status codes by kind of error, where they differ from `faults.CODES`."""
    minimum: Version = (0, 0)
    maximum: Version = (0, 0)
    legacy_header: str = ""
    """An older header whose value is the bare version."""
    ignores_common_header: bool = False
    """Whether the older header alone counts, and the one that all services share says nothing."""
    unnamed_is_invalid: bool = False
    """Whether a version header without an entry for this service is 400."""
    request_id_header: str = ""
    """A second header for the request id, beside `x-openstack-request-id`."""
    ignores_last_slash: bool = False
    """Whether a slash behind a path means nothing; elsewhere an empty id, which nothing has."""
    project_in_path: bool = False
    """Whether routes may be preceded by the caller's project id."""
    is_for_projects: bool = False
    """Whether all that there is belongs to a project: a token for none is let in to nothing."""
    body_bytes: int = WEB_BODY_BYTES
    """The largest JSON body of a request."""
    unbuilt: Unbuilt = unbuilt.NOTHING
    """What OpenStack's service has beside."""
    headers: Mapping[str, str] = {}
    """What every answer has beside its own headers."""

    @property
    def has_versions(self) -> bool:
        """Whether the service has microversions."""
        return self.maximum != (0, 0)
