"""What the placement API shows, by microversion.

Source: facts/identity_image_placement.md 9.1, 9.4 and 9.7.
"""

from __future__ import annotations

import re
from email.utils import format_datetime
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from mooring.errors import Invalid
from mooring.web.api import Reply

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from mooring.placement.providers import Provider
    from mooring.placement.service import Placement
    from mooring.web.api import Call

_HEX = "[0-9a-fA-F]"
_UUID = f"^{_HEX}{{8}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{12}}$"
Uuid = Annotated[str, Meta(pattern=_UUID)]
Generation = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""What a caller says that it saw: one that never was is another one than there is, and no error."""
NOBODY_ID = "00000000-0000-0000-0000-000000000000"
"""The project and user of consumers that were written below 1.8, where nobody said."""
_LINKS = (
    ("inventories", (1, 0)),
    ("usages", (1, 0)),
    ("aggregates", (1, 1)),
    ("traits", (1, 6)),
    ("allocations", (1, 11)),
)


class Generated(Struct, frozen=True):
    """Anything that belongs to a provider, with the provider's generation."""

    resource_provider_generation: Generation


def check_uuid(text: str, name: str) -> str:
    """Return a uuid of the path as it was written. Raises Invalid, naming what it is."""
    if not re.match(_UUID, text):
        raise Invalid(f"Malformed {name}: {text[:64]!r} is not a uuid.")
    return text


def path(call: Call[Placement], route: str) -> str:
    """Return the link to a route: a path without a host, as placement writes it."""
    return urlsplit(call.url(route)).path


def provider(call: Call[Placement], shown: Provider) -> dict[str, Any]:
    """Show one resource provider."""
    route = f"/resource_providers/{shown.id}"
    links = [{"rel": "self", "href": path(call, route)}]
    for name, since in _LINKS:
        if call.version >= since:
            links.append({"rel": name, "href": path(call, f"{route}/{name}")})
    body: dict[str, Any] = {
        "uuid": shown.id,
        "name": shown.name,
        "generation": shown.generation,
        "links": links,
    }
    if call.version >= (1, 14):
        body |= {"parent_provider_uuid": None, "root_provider_uuid": shown.id}
    return body


def answer(
    call: Call[Placement], body: Any, *, modified: datetime | None = None, status: int = 200
) -> Reply:
    """Answer with a body, from 1.15 on saying when it changed last (now, where nobody knows)."""
    if call.version < (1, 15):
        return Reply(status, body)
    moment = modified or call.service.clock.now()
    headers = {"last-modified": format_datetime(moment, usegmt=True), "cache-control": "no-cache"}
    return Reply(status, body, headers)


def newest(shown: Iterable[Provider]) -> datetime | None:
    """Return when the last of several providers changed."""
    return max((each.updated_at for each in shown), default=None)
