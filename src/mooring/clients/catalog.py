"""Where each service is: the URLs of the catalogue, without what a client does not need of them.

Source: facts/identity_image_placement.md 1.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from mooring.errors import Unavailable

ALIASES = {
    "volume": ("block-storage", "volumev3", "volume", "block-store"),
    "share": ("shared-file-system", "sharev2", "share"),
    "compute": ("compute",),
    "image": ("image",),
    "placement": ("placement",),
    "identity": ("identity",),
}
"""Our word for each service, and the types under which a catalogue may have it."""

_SEGMENTS = {"compute": "/v2.1", "volume": "/v3", "share": "/v2", "image": "/v2", "identity": "/v3"}
_VERSION = re.compile(r"/v\d+(\.\d+)?(?=/|$)")


class Catalog(Protocol):
    """Tells the versioned root of a service, by our word for it (a key of ALIASES)."""

    async def url(self, service: str) -> str:
        """Return the URL that routes are appended to. Raises Unavailable when there is none."""
        ...

    async def ids(self, service: str) -> list[str]:
        """Return by which ids identity knows the service: of none that it does not know.

        Raises Unavailable.
        """
        ...


class FixedCatalog:
    """A catalogue written down: `{"volume": "http://127.0.0.1:8700/volume/v3"}`.

    Identity has no part in it.
    """

    def __init__(self, urls: Mapping[str, str]) -> None:
        self._urls = {service: versioned(service, url) for service, url in urls.items()}

    async def url(self, service: str) -> str:
        if service not in self._urls:
            raise _missing(service)
        return self._urls[service]

    async def ids(self, service: str) -> list[str]:
        return []


class Endpoint(Struct, frozen=True):
    """One URL of a service."""

    interface: str
    url: str
    region_id: str | None = None


class Entry(Struct, frozen=True):
    """One service of a token's catalogue."""

    type: str
    endpoints: list[Endpoint] = []
    id: str = ""


def find(entries: Sequence[Entry], service: str, *, interface: str, region: str = "") -> str:
    """Return a service's versioned root from a token's catalogue.

    Takes `interface`, or public where there is none; `region` only when it is given. Raises
    Unavailable when the catalogue has no such service.
    """
    urls = {
        (entry.type, endpoint.interface): endpoint.url
        for entry in entries
        for endpoint in entry.endpoints
        if not region or endpoint.region_id == region
    }
    for wanted in (interface, "public"):
        for alias in ALIASES[service]:
            if (alias, wanted) in urls:
                return versioned(service, urls[alias, wanted])
    raise _missing(service)


def ids(entries: Sequence[Entry], service: str) -> list[str]:
    """Return the ids of a service in a token's catalogue: several, when it stands there twice."""
    return sorted(entry.id for entry in entries if entry.type in ALIASES[service] and entry.id)


def versioned(service: str, url: str) -> str:
    """Return `url` with the service's version segment, and without a project id behind it."""
    url = url.rstrip("/")
    versions = list(_VERSION.finditer(url))
    return url[: versions[-1].end()] if versions else url + _SEGMENTS.get(service, "")


def _missing(service: str) -> Unavailable:
    return Unavailable(f"The catalogue has no {service} service.", has_none=True)
