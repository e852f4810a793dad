"""Users' own words about a thing: `metadata` below volumes and snapshots, whole or by the item.

Source: facts/block_storage.md 8.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from mooring.errors import Invalid, NotFound
from mooring.volume.wire.api.values import Metadata, asked
from mooring.web.api import Reply

if TYPE_CHECKING:
    from mooring.volume.attachments.reserving import Asked
    from mooring.volume.service import Volume
    from mooring.web.api import Api, Call


class SetItems(Protocol):
    """Merges items into what there is, or puts them in its place; returns what there is then."""

    def __call__(
        self, asked: Asked, row_id: str, items: Mapping[str, str], /, *, whole: bool
    ) -> Awaitable[dict[str, str]]:
        """Return all of them. Raises NotFound, and Invalid for a thing that takes none now."""
        ...


class MetadataOf(Struct, frozen=True):
    """The metadata of one kind of thing. `create` names its policy where items are added."""

    kind: str
    check: Callable[[Metadata], Metadata]
    read: Callable[[Asked, str], Awaitable[dict[str, str]]]
    change: SetItems
    remove: Callable[[Asked, str, str], Awaitable[None]]
    create: str = "update"

    def serve(self, api: Api[Volume]) -> None:
        """Answer its six routes."""
        several = f"/{self.kind}s/{{{self.kind}_id}}/metadata"
        one = f"{several}/{{key}}"

        def policy(may: str) -> str:
            return f"volume:{may}_{self.kind}_metadata"

        api.get(several, policy=policy("get"))(self.show)
        api.post(several, Metadata, key="metadata", policy=policy(self.create))(self.merge)
        api.put(several, Metadata, key="metadata", policy=policy("update"))(self.replace)
        api.get(one, policy=policy("get"))(self.show_item)
        api.put(one, Metadata, key="meta", policy=policy("update"))(self.set_item)
        api.delete(one, policy=policy("delete"))(self.delete_item)

    async def show(self, call: Call[Volume]) -> Reply:
        """Show all metadata."""
        return Reply(200, {"metadata": await self.read(asked(call), self._id(call))})

    async def merge(self, call: Call[Volume], body: Metadata) -> Reply:
        """Add metadata to what is there."""
        return await self._set(call, body, whole=False)

    async def replace(self, call: Call[Volume], body: Metadata) -> Reply:
        """Put metadata in the place of what is there."""
        return await self._set(call, body, whole=True)

    async def show_item(self, call: Call[Volume]) -> Reply:
        """Show one item."""
        key, metadata = call.path["key"], await self.read(asked(call), self._id(call))
        if key not in metadata:
            kind = self.kind.capitalize()
            raise NotFound(f"{kind} {self._id(call)} has no metadata with key {key}.")
        return Reply(200, {"meta": {key: metadata[key]}})

    async def set_item(self, call: Call[Volume], body: Metadata) -> Reply:
        """Set one item; the body has it alone."""
        if list(body) != [call.path["key"]]:
            raise Invalid(
                "Invalid input received: The body must have the key of the URL and no other."
            )
        await self._set(call, body, whole=False)
        return Reply(200, {"meta": body})

    async def delete_item(self, call: Call[Volume]) -> Reply:
        """Remove one item."""
        await self.remove(asked(call), self._id(call), call.path["key"])
        return Reply(200)

    async def _set(self, call: Call[Volume], items: Metadata, *, whole: bool) -> Reply:
        checked = self.check(items)
        now = await self.change(asked(call), self._id(call), checked, whole=whole)
        return Reply(200, {"metadata": now})

    def _id(self, call: Call[Volume]) -> str:
        return call.path[f"{self.kind}_id"]
