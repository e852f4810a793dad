"""What clients get of each kind of thing: a page of many, one of them, and what became of it.

Source: facts/identity_image_placement.md 4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct
from sqlalchemy import ColumnElement, Select, select
from sqlalchemy.orm import DeclarativeBase, Session

from mooring.errors import Invalid
from mooring.identity import listing
from mooring.web.api import Reply

if TYPE_CHECKING:
    from mooring.identity.service import Identity
    from mooring.web.api import Call

R = TypeVar("R", bound=DeclarativeBase)
_FOR_GOOD = ("id", "domain_id", "parent_id", "is_domain")
"""What nothing changes once it is made."""


def own_domain(call: Call[Identity]) -> str:
    """Return the domain of what is made without one: that of the token, of its project or user."""
    who = call.who
    return who.domain_id or (who.project_id and who.project_domain_id) or who.user_domain_id


class Kind(Struct, Generic[R], frozen=True):
    """One kind: `name` is the key of one of them, and with an s that of many, and their path."""

    name: str
    table: type[R]
    columns: listing.Columns
    """Those that a list may be filtered by, and `id`."""
    view: Callable[[Call[Identity], R], dict[str, Any]]

    async def page(self, call: Call[Identity], *where: ColumnElement[bool]) -> Reply:
        """Answer a list, of those for which all of this holds."""
        found, more = await self.find(call, lambda _: select(self.table).where(*where))
        return self._listed(call, found, more=more)

    async def find(
        self, call: Call[Identity], rows: Callable[[Session], Select[R]]
    ) -> tuple[list[dict[str, Any]], bool]:
        """Return a page of what `rows` selects, and whether there is more. Raises what it does."""

        def read(tx: Session) -> tuple[list[dict[str, Any]], bool]:
            found, more = listing.select_page(tx, call.query, rows(tx), self.columns)
            return [self.view(call, row) for row in found], more

        return await call.service.store.read(read)

    def none(self, call: Call[Identity]) -> Reply:
        """Answer a list of none."""
        return self._listed(call, [], more=False)

    async def shown(self, call: Call[Identity], find: Callable[[Session, str], R]) -> Reply:
        """Answer the one that the path names. Raises what `find` does."""
        row_id = call.path[f"{self.name}_id"]
        found = await call.service.store.read(lambda tx: self.view(call, find(tx, row_id)))
        return Reply(200, {self.name: found})

    async def made(self, call: Call[Identity], make: Callable[[Session], R]) -> Reply:
        """Make one and answer it. Raises what `make` does."""
        return Reply(201, {self.name: await self._written(call, make)})

    async def changed(
        self,
        call: Call[Identity],
        change: Callable[[Session, str], R],
        asked: Mapping[str, Any] | None = None,
    ) -> Reply:
        """Change the one that the path names as `asked`, and answer it.

        Raises what `change` does, and Invalid where something is to change that stays for good.
        """
        row_id = call.path[f"{self.name}_id"]

        def write(tx: Session) -> dict[str, Any]:
            shown = self.view(call, change(tx, row_id))
            self._refuse_other(shown, asked or {})
            return shown

        return Reply(200, {self.name: await call.service.change(write)})

    async def removed(self, call: Call[Identity], remove: Callable[[Session, str], None]) -> Reply:
        """Delete the one that the path names. Raises what `remove` does."""
        row_id = call.path[f"{self.name}_id"]
        await call.service.change(lambda tx: remove(tx, row_id))
        return Reply(204)

    async def _written(self, call: Call[Identity], write: Callable[[Session], R]) -> dict[str, Any]:
        return await call.service.change(lambda tx: self.view(call, write(tx)))

    def _refuse_other(self, shown: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
        for name in _FOR_GOOD:
            wanted = asked.get(name)
            if name in shown and wanted is not None and wanted != shown[name]:
                raise Invalid(
                    f"Cannot change {name} of {self.name} {shown['id']}: it is {shown[name]} for "
                    f"good. Nothing was changed; leave {name} out, or make another {self.name}."
                )

    def _listed(self, call: Call[Identity], found: list[dict[str, Any]], *, more: bool) -> Reply:
        many = f"{self.name}s"
        return Reply(200, listing.body(call, f"/{many}", many, found, more=more))
