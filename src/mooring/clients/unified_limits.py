"""Unified limits, as the service that they are for asks identity for them.

Source: facts/identity_image_placement.md 4.2 and 4.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from mooring import typed
from mooring.errors import MooringError, Unavailable

if TYPE_CHECKING:
    from mooring.clients.session import Session

ANY = -1
"""A limit that is none."""


class _Named(Struct, frozen=True, kw_only=True):
    """What a limit is of, and its id."""

    id: str
    resource_name: str
    region_id: str | None = None


class _Registered(_Named, frozen=True, kw_only=True):
    default_limit: int


class _Limit(_Named, frozen=True, kw_only=True):
    resource_limit: int


T = TypeVar("T", bound=_Named)


class UnifiedLimits:
    """The limits of one service's resources. `service` is our word for it, in its `region`."""

    def __init__(self, session: Session, *, service: str, region: str) -> None:
        self._session, self._service, self._region = session, service, region

    async def find(self, project_id: str) -> dict[str, int]:
        """Return what a project may have, by the names of resources; -1 (`ANY`) for any amount.

        Its limit, or else what is registered; names of which nothing is registered are missing.
        What is registered for the region goes before what is for none. Raises Unavailable, also
        when identity refuses.
        """
        found: dict[str, int] = {}
        try:
            for service_id in await self._session.ids_of(self._service):
                found |= await self._of(service_id, project_id)
        except Unavailable:
            raise
        except MooringError as error:
            raise Unavailable(
                "The identity service does not tell what the project may have. Nothing was "
                "changed; try again later.",
                private=str(error),
            ) from error
        return found

    async def _of(self, service_id: str, project_id: str) -> dict[str, int]:
        registered = self._here(
            await self._every("registered_limits", list[_Registered], service_id=service_id)
        )
        if not registered:
            return {}
        of_project = {"service_id": service_id, "project_id": project_id}
        limits = self._here(await self._every("limits", list[_Limit], **of_project))
        own = {(one.region_id, one.resource_name): one.resource_limit for one in limits}
        return {
            one.resource_name: own.get((one.region_id, one.resource_name), one.default_limit)
            for one in registered
        }

    def _here(self, limits: list[T]) -> list[T]:
        """Return those that hold in the region, behind those that hold in each."""
        near = (None, self._region)
        found = [one for one in limits if one.region_id in near]
        return sorted(found, key=lambda one: near.index(one.region_id))

    async def _every(self, many: str, form: type[list[T]], **query: str) -> list[T]:
        """Return all pages of a list. Raises Unavailable for what is none."""
        found: list[T] = []
        while True:
            path = f"/{many}?{urlencode(query)}"
            body = (await self._session.request("GET", path, caller=None)).json()
            try:
                page = typed.convert(body[many], form)
            except (KeyError, TypeError, msgspec.ValidationError) as error:
                raise Unavailable(
                    "The identity service sent limits that make no sense; ask its operator.",
                    private=f"GET {path}: {error}",
                ) from error
            found += page
            if not (page and body.get("truncated")):
                return found
            query["marker"] = page[-1].id
