"""Regions, services and endpoints, and the catalogue that tokens carry.

Source: facts/identity_image_placement.md 1.1, 4.2 and 4.4.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from sqlalchemy import delete, select

from mooring.errors import Conflict, Forbidden, Invalid
from mooring.identity import bodies, rows
from mooring.identity.tables import (
    EndpointRow,
    LimitRow,
    RegionRow,
    RegisteredLimitRow,
    ServiceRow,
)

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

Text = Annotated[str, Meta(min_length=1, max_length=255)]
Url = Annotated[str, Meta(min_length=1, max_length=2048, pattern=r"^https?://[^\s]+$")]
Interface = Literal["public", "internal", "admin"]
_TEMPLATE = re.compile(r"[%$]\((project_id|tenant_id)\)s")
_UNKNOWN = re.compile(r"[%$]\((?!(?:project_id|tenant_id)\)s)[^)]*\)?s?")


class NewRegion(Struct, frozen=True):
    """What to make."""

    id: Text | None = None
    description: str | None = None
    parent_region_id: str | None = None


class RegionChange(Struct, frozen=True):
    """What to change."""

    description: str | UnsetType | None = UNSET
    parent_region_id: str | UnsetType | None = UNSET


class NewService(Struct, frozen=True):
    """What to make."""

    type: Text
    name: str | None = None
    description: str | None = None
    enabled: bool = True


class ServiceChange(Struct, frozen=True):
    """What to change."""

    type: Text | UnsetType = UNSET
    name: str | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    enabled: bool | UnsetType = UNSET


class NewEndpoint(Struct, frozen=True):
    """What to make. `region` is the older key: it makes a region that does not exist."""

    service_id: str
    interface: Interface
    url: Url
    region_id: str | None = None
    region: str | None = None
    enabled: bool = True


class EndpointChange(Struct, frozen=True):
    """What to change."""

    service_id: str | UnsetType = UNSET
    interface: Interface | UnsetType = UNSET
    url: Url | UnsetType = UNSET
    region_id: str | UnsetType | None = UNSET
    region: str | UnsetType | None = UNSET
    enabled: bool | UnsetType = UNSET


def entries(tx: Session, project_id: str) -> list[dict[str, Any]]:
    """Return the catalogue of a token: enabled services with their enabled endpoints."""
    services = tx.scalars(select(ServiceRow).where(ServiceRow.enabled).order_by(ServiceRow.type))
    found: dict[str, dict[str, Any]] = {
        row.id: {"id": row.id, "type": row.type, "name": row.name or "", "endpoints": []}
        for row in services
    }
    endpoints = select(EndpointRow).where(EndpointRow.enabled).order_by(EndpointRow.interface)
    for row in tx.scalars(endpoints):
        if row.service_id in found:
            found[row.service_id]["endpoints"].append(
                {
                    "id": row.id,
                    "interface": row.interface,
                    "region_id": row.region_id,
                    "region": row.region_id,
                    "url": _TEMPLATE.sub(project_id, row.url),
                }
            )
    return list(found.values())


def find_region(tx: Session, region_id: str) -> RegionRow:
    """Return a region. Raises NotFound."""
    return rows.find(tx, RegionRow, "region", region_id)


def create_region(tx: Session, new: NewRegion, extra: dict[str, Any]) -> RegionRow:
    """Make a region. Raises NotFound for the parent, Conflict."""
    region_id = new.id or bodies.new_id()
    if tx.get(RegionRow, region_id) is not None:
        raise Conflict(f"Conflict occurred attempting to store region: '{region_id}' exists.")
    if new.parent_region_id is not None:
        find_region(tx, new.parent_region_id)
    return rows.keep(
        tx,
        RegionRow(
            id=region_id,
            description=new.description or "",
            parent_region_id=new.parent_region_id,
            extra=extra,
        ),
    )


def change_region(
    tx: Session, region_id: str, changes: RegionChange, extra: dict[str, Any]
) -> RegionRow:
    """Change a region. Raises NotFound, and Invalid where it would be within itself."""
    row = find_region(tx, region_id)
    given = bodies.given(changes)
    if "description" in given:
        given["description"] = given["description"] or ""
    if given.get("parent_region_id"):
        _refuse_loop(tx, region_id, given["parent_region_id"])
    return rows.change(tx, row, given, extra)


def _refuse_loop(tx: Session, region_id: str, parent_id: str) -> None:
    """Raise NotFound for the parent, and Invalid where a region would be within itself.

    Neither of two such regions could be deleted. Those of an earlier release are met once.
    """
    met, above = set[str](), find_region(tx, parent_id)
    while above.id not in met:
        if above.id == region_id:
            raise Invalid(
                f"Region {region_id} cannot be within {parent_id}, which is within it. Nothing was "
                "changed; choose another parent."
            )
        met.add(above.id)
        if above.parent_region_id is not None:
            above = find_region(tx, above.parent_region_id)


def remove_region(tx: Session, region_id: str) -> None:
    """Delete a region. Raises NotFound, Forbidden while anything refers to it."""
    row = find_region(tx, region_id)
    references = (EndpointRow.region_id, RegionRow.parent_region_id, RegisteredLimitRow.region_id)
    for column in references:
        if tx.scalar(select(column).where(column == region_id).limit(1)) is not None:
            raise Forbidden(
                f"The region {region_id} holds endpoints, regions or registered limits. Delete "
                "them first."
            )
    rows.remove(tx, row)


def find_service(tx: Session, service_id: str) -> ServiceRow:
    """Return a service. Raises NotFound."""
    return rows.find(tx, ServiceRow, "service", service_id)


def create_service(tx: Session, new: NewService, extra: dict[str, Any]) -> ServiceRow:
    """Make a service; several may have one type or name."""
    return rows.keep(
        tx,
        ServiceRow(
            id=bodies.new_id(),
            type=new.type,
            name=new.name,
            description=new.description,
            enabled=new.enabled,
            extra=extra,
        ),
    )


def change_service(
    tx: Session, service_id: str, changes: ServiceChange, extra: dict[str, Any]
) -> ServiceRow:
    """Change a service. Raises NotFound."""
    return rows.change(tx, find_service(tx, service_id), bodies.given(changes), extra)


def remove_service(tx: Session, service_id: str) -> None:
    """Delete a service with its endpoints, and with the limits of what it has. Raises NotFound."""
    row = find_service(tx, service_id)
    registered = RegisteredLimitRow.service_id == service_id
    limits = LimitRow.registered_limit_id.in_(select(RegisteredLimitRow.id).where(registered))
    tx.execute(delete(LimitRow).where(limits))
    tx.execute(delete(RegisteredLimitRow).where(registered))
    tx.execute(delete(EndpointRow).where(EndpointRow.service_id == service_id))
    rows.remove(tx, row)


def find_endpoint(tx: Session, endpoint_id: str) -> EndpointRow:
    """Return an endpoint. Raises NotFound."""
    return rows.find(tx, EndpointRow, "endpoint", endpoint_id)


def create_endpoint(tx: Session, new: NewEndpoint, extra: dict[str, Any]) -> EndpointRow:
    """Make an endpoint. Raises Invalid for a service or a `region_id` that does not exist."""
    values: dict[str, Any] = {
        "service_id": new.service_id,
        "region_id": new.region_id,
        "url": new.url,
    }
    if new.region is not None:
        values["region"] = new.region
    _settle(tx, values)
    return rows.keep(
        tx,
        EndpointRow(
            id=bodies.new_id(),
            interface=new.interface,
            enabled=new.enabled,
            extra=extra,
            **values,
        ),
    )


def change_endpoint(
    tx: Session, endpoint_id: str, changes: EndpointChange, extra: dict[str, Any]
) -> EndpointRow:
    """Change an endpoint; from then on the bootstrap leaves it alone. Raises NotFound, Invalid."""
    row = find_endpoint(tx, endpoint_id)
    given = bodies.given(changes)
    _settle(tx, given)
    row.ours = False
    return rows.change(tx, row, given, extra)


def remove_endpoint(tx: Session, endpoint_id: str) -> None:
    """Delete an endpoint. Raises NotFound."""
    rows.remove(tx, find_endpoint(tx, endpoint_id))


def _settle(tx: Session, values: dict[str, Any]) -> None:
    """Check what an endpoint refers to, and turn `region` into `region_id`."""
    if unknown := _UNKNOWN.search(values.get("url", "")):
        raise Invalid(
            f"Invalid input for url: nothing fills in {unknown[0]}. Nothing was changed; "
            "%(project_id)s and %(tenant_id)s are filled in."
        )
    region = values.pop("region", None)
    region_id = values.get("region_id")
    if region_id is not None and tx.get(RegionRow, region_id) is None:
        raise Invalid(f"Invalid input for region_id: there is no region {region_id}.")
    if region is not None and region_id is None:
        values["region_id"] = region
        if tx.get(RegionRow, region) is None:
            tx.add(RegionRow(id=region, description="", parent_region_id=None, extra={}))
            tx.flush()
    service_id = values.get("service_id")
    if service_id is not None and tx.get(ServiceRow, service_id) is None:
        raise Invalid(f"Invalid input for service_id: there is no service {service_id}.")
