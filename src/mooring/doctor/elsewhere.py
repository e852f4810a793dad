"""Which services the catalogue has from somebody else, so that our own rows of them say nothing.

A cloud whose catalogue names a real Nova has attachments that our compute service knows nothing of.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring.clients.catalog import ALIASES
from mooring.identity.tables import EndpointRow, ServiceRow
from mooring.store.base import Store

_OURS = "identity"


async def read(stores: Mapping[str, Store]) -> frozenset[str]:
    """Return the services of others, by our words for them; none where identity is another's."""
    store = stores.get(_OURS)
    return frozenset() if store is None else await store.read(_find)


def _find(tx: Session) -> frozenset[str]:
    query = (
        select(ServiceRow.type, EndpointRow.url, EndpointRow.ours)
        .join(EndpointRow, EndpointRow.service_id == ServiceRow.id)
        .where(ServiceRow.enabled, EndpointRow.enabled)
    )
    urls: dict[str, list[str]] = {}
    set_by_us: set[str] = set()
    for kind, url, ours in tx.execute(query):
        urls.setdefault(kind, []).append(url)
        set_by_us |= {url} if ours else set()
    # Where identity is said to be, there are all services of ours, each below its name.
    roots = tuple({_root(url) for url in urls.get(_OURS, [])} - {""})
    found: set[str] = set()
    for service, kinds in ALIASES.items():
        named = {url for kind in kinds for url in urls.get(kind, [])}
        below = tuple(f"{root}/{service}" for root in roots)
        if named and not named & set_by_us and not any(url.startswith(below) for url in named):
            found.add(service)
    return frozenset(found)


def _root(url: str) -> str:
    """Return what is before identity's path, "" for one that is not below its name."""
    parts = urlsplit(url)
    before, found, _ = parts.path.partition(f"/{_OURS}")
    return f"{parts.scheme}://{parts.netloc}{before}" if found else ""
