"""/regions, /services and /endpoints. Source: facts/identity_image_placement.md 4.3 and 4.4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from sqlalchemy import select

from mooring.identity import bodies, catalogue, listing, views
from mooring.identity.catalogue import (
    EndpointChange,
    NewEndpoint,
    NewRegion,
    NewService,
    RegionChange,
    ServiceChange,
)
from mooring.identity.service import Identity
from mooring.identity.tables import EndpointRow, RegionRow, ServiceRow
from mooring.web.api import Api, Call, Reply

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

api = Api[Identity]()

_REGION_COLUMNS: listing.Columns = {
    "id": RegionRow.id,
    "parent_region_id": RegionRow.parent_region_id,
}
_SERVICE_COLUMNS: listing.Columns = {
    "id": ServiceRow.id,
    "type": ServiceRow.type,
    "name": ServiceRow.name,
}
_ENDPOINT_COLUMNS: listing.Columns = {
    "id": EndpointRow.id,
    "interface": EndpointRow.interface,
    "service_id": EndpointRow.service_id,
    "region_id": EndpointRow.region_id,
}


@api.get("/regions", policy="identity:list_regions")
async def list_regions(call: Call[Identity]) -> Reply:
    """List regions."""

    def read(tx: Session) -> tuple[list[dict[str, Any]], bool]:
        rows, more = listing.select_page(tx, call.query, select(RegionRow), _REGION_COLUMNS)
        return [views.region(call, row) for row in rows], more

    found, more = await call.service.store.read(read)
    return Reply(200, listing.body(call, "/regions", "regions", found, more=more))


@api.post("/regions", dict[str, Any], key="region", policy="identity:create_region")
async def create_region(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Make a region."""
    return await _create_region(call, body, bodies.known(body, NewRegion))


@api.put("/regions/{region_id}", dict[str, Any], key="region", policy="identity:create_region")
async def put_region(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Make a region of a given id."""
    new = replace(bodies.known(body, NewRegion), id=call.path["region_id"])
    return await _create_region(call, body, new)


@api.get("/regions/{region_id}", policy="identity:get_region")
async def show_region(call: Call[Identity]) -> Reply:
    """Show a region."""
    region_id = call.path["region_id"]
    found = await call.service.store.read(
        lambda tx: views.region(call, catalogue.find_region(tx, region_id))
    )
    return Reply(200, {"region": found})


@api.patch("/regions/{region_id}", dict[str, Any], key="region", policy="identity:update_region")
async def change_region(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Change a region."""
    region_id = call.path["region_id"]
    changes = bodies.known(body, RegionChange)
    extra = bodies.unknown(body, NewRegion)
    changed = await call.service.change(
        lambda tx: views.region(call, catalogue.change_region(tx, region_id, changes, extra))
    )
    return Reply(200, {"region": changed})


@api.delete("/regions/{region_id}", policy="identity:delete_region")
async def delete_region(call: Call[Identity]) -> Reply:
    """Delete a region."""
    await call.service.change(lambda tx: catalogue.remove_region(tx, call.path["region_id"]))
    return Reply(204)


@api.get("/services", policy="identity:list_services")
async def list_services(call: Call[Identity]) -> Reply:
    """List services."""

    def read(tx: Session) -> tuple[list[dict[str, Any]], bool]:
        rows, more = listing.select_page(tx, call.query, select(ServiceRow), _SERVICE_COLUMNS)
        return [views.service(call, row) for row in rows], more

    found, more = await call.service.store.read(read)
    return Reply(200, listing.body(call, "/services", "services", found, more=more))


@api.post("/services", dict[str, Any], key="service", policy="identity:create_service")
async def create_service(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Make a service."""
    new = bodies.known(body, NewService)
    extra = bodies.unknown(body, NewService)
    made = await call.service.change(
        lambda tx: views.service(call, catalogue.create_service(tx, new, extra))
    )
    return Reply(201, {"service": made})


@api.get("/services/{service_id}", policy="identity:get_service")
async def show_service(call: Call[Identity]) -> Reply:
    """Show a service."""
    service_id = call.path["service_id"]
    found = await call.service.store.read(
        lambda tx: views.service(call, catalogue.find_service(tx, service_id))
    )
    return Reply(200, {"service": found})


@api.patch(
    "/services/{service_id}", dict[str, Any], key="service", policy="identity:update_service"
)
async def change_service(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Change a service."""
    service_id = call.path["service_id"]
    changes = bodies.known(body, ServiceChange)
    extra = bodies.unknown(body, NewService)
    changed = await call.service.change(
        lambda tx: views.service(call, catalogue.change_service(tx, service_id, changes, extra))
    )
    return Reply(200, {"service": changed})


@api.delete("/services/{service_id}", policy="identity:delete_service")
async def delete_service(call: Call[Identity]) -> Reply:
    """Delete a service with its endpoints."""
    await call.service.change(lambda tx: catalogue.remove_service(tx, call.path["service_id"]))
    return Reply(204)


@api.get("/endpoints", policy="identity:list_endpoints")
async def list_endpoints(call: Call[Identity]) -> Reply:
    """List endpoints."""

    def read(tx: Session) -> tuple[list[dict[str, Any]], bool]:
        rows, more = listing.select_page(tx, call.query, select(EndpointRow), _ENDPOINT_COLUMNS)
        return [views.endpoint(call, row) for row in rows], more

    found, more = await call.service.store.read(read)
    return Reply(200, listing.body(call, "/endpoints", "endpoints", found, more=more))


@api.post("/endpoints", dict[str, Any], key="endpoint", policy="identity:create_endpoint")
async def create_endpoint(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Make an endpoint."""
    new = bodies.known(body, NewEndpoint)
    extra = bodies.unknown(body, NewEndpoint)
    made = await call.service.change(
        lambda tx: views.endpoint(call, catalogue.create_endpoint(tx, new, extra))
    )
    return Reply(201, {"endpoint": made})


@api.get("/endpoints/{endpoint_id}", policy="identity:get_endpoint")
async def show_endpoint(call: Call[Identity]) -> Reply:
    """Show an endpoint."""
    endpoint_id = call.path["endpoint_id"]
    found = await call.service.store.read(
        lambda tx: views.endpoint(call, catalogue.find_endpoint(tx, endpoint_id))
    )
    return Reply(200, {"endpoint": found})


@api.patch(
    "/endpoints/{endpoint_id}", dict[str, Any], key="endpoint", policy="identity:update_endpoint"
)
async def change_endpoint(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Change an endpoint: this is how another service is put in the place of ours."""
    endpoint_id = call.path["endpoint_id"]
    changes = bodies.known(body, EndpointChange)
    extra = bodies.unknown(body, NewEndpoint)
    changed = await call.service.change(
        lambda tx: views.endpoint(call, catalogue.change_endpoint(tx, endpoint_id, changes, extra))
    )
    return Reply(200, {"endpoint": changed})


@api.delete("/endpoints/{endpoint_id}", policy="identity:delete_endpoint")
async def delete_endpoint(call: Call[Identity]) -> Reply:
    """Delete an endpoint."""
    await call.service.change(lambda tx: catalogue.remove_endpoint(tx, call.path["endpoint_id"]))
    return Reply(204)


async def _create_region(call: Call[Identity], body: dict[str, Any], new: NewRegion) -> Reply:
    extra = bodies.unknown(body, NewRegion)
    made = await call.service.change(
        lambda tx: views.region(call, catalogue.create_region(tx, new, extra))
    )
    return Reply(201, {"region": made})
