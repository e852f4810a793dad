"""Users' own words about a thing: `metadata` below shares and snapshots, whole or by the item.

Source: facts/shared_file_systems.md 8.2.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from mooring.errors import NotFound
from mooring.share.wire.api.values import Metadata, asked, check_metadata
from mooring.web.api import Reply

if TYPE_CHECKING:
    from mooring.share.service import Asked, Share
    from mooring.web.api import Api, Call, Version


class SetItems(Protocol):
    """Merges items into what there is, or puts them in its place; returns what there is then."""

    def __call__(
        self, asked: Asked, row_id: str, items: Mapping[str, str], /, *, whole: bool
    ) -> Awaitable[dict[str, str]]:
        """Return all of them. Raises NotFound."""
        ...


class Rules(Struct, frozen=True):
    """The names of the policy's rules."""

    read: str
    change: str
    remove: str


class MetadataOf(Struct, frozen=True):
    """The metadata of one kind of thing, from the version `since` on."""

    kind: str
    since: Version | None
    rules: Rules
    read: Callable[[Asked, str], Awaitable[dict[str, str]]]
    change: SetItems
    remove: Callable[[Asked, str, str], Awaitable[None]]

    def serve(self, api: Api[Share]) -> None:
        """Answer its five routes."""
        several = f"/{self.kind}s/{{{self.kind}_id}}/metadata"
        one, rules, since = f"{several}/{{key}}", self.rules, self.since
        api.get(several, policy=rules.read, since=since)(self.show)
        change = rules.change
        api.post(several, Metadata, key="metadata", policy=change, since=since)(self.merge)
        api.put(several, Metadata, key="metadata", policy=change, since=since)(self.replace)
        api.get(one, policy=rules.read, since=since)(self.show_item)
        api.delete(one, policy=rules.remove, since=since)(self.delete_item)

    async def show(self, call: Call[Share]) -> Reply:
        """Show all metadata."""
        return Reply(200, {"metadata": await self.read(asked(call), self._id(call))})

    async def merge(self, call: Call[Share], body: Metadata) -> Reply:
        """Add metadata to what is there."""
        return await self._set(call, body, whole=False)

    async def replace(self, call: Call[Share], body: Metadata) -> Reply:
        """Put metadata in the place of what is there."""
        return await self._set(call, body, whole=True)

    async def show_item(self, call: Call[Share]) -> Reply:
        """Show one item."""
        key, metadata = call.path["key"], await self.read(asked(call), self._id(call))
        if key not in metadata:
            kind = self.kind.capitalize()
            raise NotFound(f"{kind} {self._id(call)} has no metadata with key {key}.")
        return Reply(200, {"meta": {key: metadata[key]}})

    async def delete_item(self, call: Call[Share]) -> Reply:
        """Remove one item."""
        await self.remove(asked(call), self._id(call), call.path["key"])
        return Reply(200)

    async def _set(self, call: Call[Share], items: Metadata, *, whole: bool) -> Reply:
        checked = check_metadata(items)
        now = await self.change(asked(call), self._id(call), checked, whole=whole)
        return Reply(200, {"metadata": now})

    def _id(self, call: Call[Share]) -> str:
        return call.path[f"{self.kind}_id"]
