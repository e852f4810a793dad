"""The image service, as its callers see it: ours, or a real Glance.

Source: facts/identity_image_placement.md 8.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from msgspec import Struct

from mooring import typed
from mooring.errors import Invalid, NotFound, Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping

    from mooring.clients.session import Caller, Session
    from mooring.fence.operation import Operation

_GIB = 1024**3
UPLOAD_WAIT_S = 120.0
"""How long each wait of an upload may take: the service forces the last data to disk."""
GLANCES_OWN = frozenset(
    (
        *("checksum", "container_format", "created_at", "direct_url", "disk_format", "file", "id"),
        *("locations", "min_disk", "min_ram", "name", "os_hash_algo", "os_hash_value"),
        *("os_hidden", "owner", "protected", "schema", "self", "size", "status", "stores", "tags"),
        *("updated_at", "virtual_size", "visibility"),
    )
)
"""Names that no property of an image may have (facts/identity_image_placement.md 8.6)."""
BLOCK_DEVICES = "block_device_mapping"
"""The property in which the image of a server that boots from a volume names its disks."""
_OF_ITS_DATA = (
    *("cache_in_nova", "bittorrent", "img_signature", "signature_verified"),
    "cinder_encryption_key",
)
_VALUE_CHARACTERS = 255
_CHANGES = {"content-type": "application/openstack-images-v2.1-json-patch"}


class Image(Struct, frozen=True):
    """One image. Sizes in bytes, `min_disk_gib` in GiB, `min_ram_mib` in MiB.

    `properties` holds every key of its own beside Glance's, as strings (`hw_disk_bus`, ...).
    """

    id: str
    status: str
    name: str | None = None
    visibility: str = "private"
    owner: str | None = None
    disk_format: str | None = None
    container_format: str | None = None
    size_bytes: int | None = None
    virtual_size_bytes: int | None = None
    checksum: str | None = None
    os_hash_algo: str | None = None
    os_hash_value: str | None = None
    min_disk_gib: int = 0
    min_ram_mib: int = 0
    protected: bool = False
    tags: tuple[str, ...] = ()
    properties: dict[str, str] = {}

    @property
    def size_gib(self) -> int:
        """Its data in GiB, rounded up; 0 while it has none."""
        return _whole_gib(self.size_bytes)

    @property
    def virtual_size_gib(self) -> int:
        """Its disk in GiB, rounded up; 0 while that is not known."""
        return _whole_gib(self.virtual_size_bytes)

    @property
    def is_active(self) -> bool:
        """Whether its data may be read."""
        return self.status == "active"

    @property
    def is_whole(self) -> bool:
        """Whether it has its data, also where an administrator lets nobody read them for now."""
        return self.status in {"active", "deactivated"}

    @property
    def has_no_data(self) -> bool:
        """Whether it names disks of its own, and there is nothing else to fill one with."""
        return BLOCK_DEVICES in self.properties and not self.size_bytes


class NewImage(Struct, frozen=True, kw_only=True):
    """An image that is to be made. Sizes in GiB and MiB, as named.

    `properties` are its own keys beside Glance's; none of them is one of Glance's.
    """

    id: str
    name: str
    disk_format: str
    visibility: str = "private"
    min_disk_gib: int = 0
    min_ram_mib: int = 0
    properties: dict[str, str] = {}

    def body(self) -> dict[str, Any]:
        """Return it as the image API takes it."""
        return {
            **self.properties,
            "id": self.id,
            "name": self.name,
            "visibility": self.visibility,
            "disk_format": self.disk_format,
            "container_format": "bare",
            "min_disk": self.min_disk_gib,
            "min_ram": self.min_ram_mib,
        }


class ImageClient:
    """Calls to the image API; each raises one of the nine kinds of `mooring.errors`."""

    def __init__(self, session: Session) -> None:
        self.session = session

    async def show(self, caller: Caller, image_id: str) -> Image:
        """Return one image. Raises NotFound, also for an image that the caller may not see."""
        answer = await self.session.request("GET", f"/images/{_part(image_id)}", caller=caller)
        return read_image(answer.json())

    async def newest(self, caller: Caller, wanted: Mapping[str, str]) -> list[Image]:
        """Return the images that have all of these attributes and properties, the newest first."""
        found: list[Image] = []
        while True:
            marker = {"marker": found[-1].id} if found else {}
            query = urlencode({**wanted, "sort": "created_at:desc", **marker})
            try:
                answer = await self.session.request("GET", f"/images?{query}", caller=caller)
            except (Invalid, NotFound):
                if not marker:
                    raise
                # The one that the last page ended with is gone by now: those that are left anew.
                found = []
                continue
            body = answer.json()
            page = [read_image(one) for one in body.get("images", [])]
            found += page
            if not page or not body.get("next"):
                return found

    @asynccontextmanager
    async def download(
        self, caller: Caller, image_id: str
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Open the image's data, read in chunks; an image without data gives none.

        Raises NotFound; Forbidden for a deactivated image; Unavailable, also in the middle of
        reading, when the stream breaks. Whoever reads checks the size and hash that `show` told.
        """
        path = f"/images/{_part(image_id)}/file"
        async with self.session.stream("GET", path, caller=caller) as chunks:
            yield chunks

    async def url(self, image_id: str) -> str:
        """Return where users find an image."""
        return await self.session.url(f"/images/{_part(image_id)}")

    async def create(
        self, caller: Caller, new: NewImage, *, operation: Operation | None = None
    ) -> Image:
        """Make an image without data, or find the one that this very operation made.

        Raises Conflict when the id is taken, Forbidden, Invalid, OverQuota. A service that knows no
        operations answers a repeated call with Conflict: then `show` tells whose the image is.
        """
        answer = await self.session.request(
            "POST", "/images", caller=caller, json=new.body(), operation=operation
        )
        return read_image(answer.json())

    async def upload(self, caller: Caller, image_id: str, chunks: AsyncIterable[bytes]) -> None:
        """Give a queued image its data; what `chunks` raises leaves it queued.

        Raises NotFound, Conflict unless it is queued, OverQuota, Invalid; Unavailable: it may be
        active, saving or queued, as `show` tells.
        """
        path = f"/images/{_part(image_id)}/file"
        await self.session.upload("PUT", path, chunks, caller=caller, timeout_s=UPLOAD_WAIT_S)

    async def protect(self, caller: Caller, image_id: str, *, protected: bool) -> None:
        """Say whether an image may be deleted. Raises NotFound, Forbidden."""
        await self.session.request(
            "PATCH",
            f"/images/{_part(image_id)}",
            caller=caller,
            json=[{"op": "replace", "path": "/protected", "value": protected}],
            headers=_CHANGES,
        )

    async def delete(self, caller: Caller, image_id: str) -> None:
        """Delete an image. Raises NotFound, Forbidden for a protected one, Conflict."""
        await self.session.request("DELETE", f"/images/{_part(image_id)}", caller=caller)


_FIELDS = {
    "size": "size_bytes",
    "virtual_size": "virtual_size_bytes",
    "min_disk": "min_disk_gib",
    "min_ram": "min_ram_mib",
}
_SERVERS_OWN = frozenset(
    ("created_at", "updated_at", "self", "file", "schema", "os_hidden", "stores", "direct_url")
)


def inherited(properties: Mapping[str, object]) -> dict[str, str]:
    """Return what an image has of the properties of the one that its data once came from.

    Without those that go with that one's data, such as its signature
    (facts/identity_image_placement.md 8.10).
    """
    return {
        key: str(value)[:_VALUE_CHARACTERS]
        for key, value in properties.items()
        if not key.startswith(_OF_ITS_DATA)
    }


def read_image(body: dict[str, Any]) -> Image:
    """Read an image as the image API writes it. Raises Unavailable when it is no image."""
    known: dict[str, Any] = {}
    properties: dict[str, str] = {}
    for key, value in body.items():
        name = _FIELDS.get(key, key)
        if name in Image.__struct_fields__ and name != "properties":
            known[name] = value
        elif isinstance(value, str) and key not in _SERVERS_OWN:
            properties[key] = value
    if known.get("min_disk_gib", 0) is None or known.get("min_ram_mib", 0) is None:
        known |= {name: known.get(name) or 0 for name in ("min_disk_gib", "min_ram_mib")}
    try:
        return typed.convert({**known, "properties": properties}, Image)
    except ValueError as error:
        raise Unavailable(
            "The image service sent an image that makes no sense; ask its operator.",
            private=str(error),
        ) from error


def _whole_gib(size_bytes: int | None) -> int:
    return -(-(size_bytes or 0) // _GIB)


def _part(text: str) -> str:
    """Write an id as one part of a path, whatever it holds."""
    return quote(text, safe="")
