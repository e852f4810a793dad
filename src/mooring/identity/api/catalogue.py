"""/regions, /services and /endpoints. Source: facts/identity_image_placement.md 4.3 and 4.4."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from mooring.errors import Invalid
from mooring.identity import bodies, catalogue, views
from mooring.identity.api.kinds import Kind
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

api = Api[Identity]()

_REGIONS = Kind(
    "region",
    RegionRow,
    {
        "id": RegionRow.id,
        "parent_region_id": RegionRow.parent_region_id,
    },
    views.region,
)
_SERVICES = Kind(
    "service",
    ServiceRow,
    {
        "id": ServiceRow.id,
        "type": ServiceRow.type,
        "name": ServiceRow.name,
    },
    views.service,
)
_ENDPOINTS = Kind(
    "endpoint",
    EndpointRow,
    {
        "id": EndpointRow.id,
        "interface": EndpointRow.interface,
        "service_id": EndpointRow.service_id,
        "region_id": EndpointRow.region_id,
    },
    views.endpoint,
)


@api.get("/regions", policy="identity:list_regions")
async def list_regions(call: Call[Identity]) -> Reply:
    """List regions."""
    return await _REGIONS.page(call)


@api.post("/regions", dict[str, Any], key="region", policy="identity:create_region")
async def create_region(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Make a region."""
    new, extra = bodies.read(body, NewRegion)
    return await _REGIONS.made(call, lambda tx: catalogue.create_region(tx, new, extra))


@api.put("/regions/{region_id}", dict[str, Any], key="region", policy="identity:create_region")
async def put_region(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Make a region of a given id."""
    new, extra = bodies.read(body, NewRegion)
    region_id = call.path["region_id"]
    if new.id not in (None, region_id):
        raise Invalid(f"The body names region {new.id}, and the URL {region_id}. Nothing was made.")
    new = replace(new, id=region_id)
    return await _REGIONS.made(call, lambda tx: catalogue.create_region(tx, new, extra))


@api.get("/regions/{region_id}", policy="identity:get_region")
async def show_region(call: Call[Identity]) -> Reply:
    """Show a region."""
    return await _REGIONS.shown(call, catalogue.find_region)


@api.patch("/regions/{region_id}", dict[str, Any], key="region", policy="identity:update_region")
async def change_region(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Change a region."""
    changes, extra = bodies.read(body, RegionChange, NewRegion)
    return await _REGIONS.changed(
        call, lambda tx, region_id: catalogue.change_region(tx, region_id, changes, extra), body
    )


@api.delete("/regions/{region_id}", policy="identity:delete_region")
async def delete_region(call: Call[Identity]) -> Reply:
    """Delete a region."""
    return await _REGIONS.removed(call, catalogue.remove_region)


@api.get("/services", policy="identity:list_services")
async def list_services(call: Call[Identity]) -> Reply:
    """List services."""
    return await _SERVICES.page(call)


@api.post("/services", dict[str, Any], key="service", policy="identity:create_service")
async def create_service(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Make a service."""
    new, extra = bodies.read(body, NewService)
    return await _SERVICES.made(call, lambda tx: catalogue.create_service(tx, new, extra))


@api.get("/services/{service_id}", policy="identity:get_service")
async def show_service(call: Call[Identity]) -> Reply:
    """Show a service."""
    return await _SERVICES.shown(call, catalogue.find_service)


@api.patch(
    "/services/{service_id}", dict[str, Any], key="service", policy="identity:update_service"
)
async def change_service(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Change a service."""
    changes, extra = bodies.read(body, ServiceChange, NewService)
    return await _SERVICES.changed(
        call, lambda tx, service_id: catalogue.change_service(tx, service_id, changes, extra), body
    )


@api.delete("/services/{service_id}", policy="identity:delete_service")
async def delete_service(call: Call[Identity]) -> Reply:
    """Delete a service with its endpoints."""
    return await _SERVICES.removed(call, catalogue.remove_service)


@api.get("/endpoints", policy="identity:list_endpoints")
async def list_endpoints(call: Call[Identity]) -> Reply:
    """List endpoints."""
    return await _ENDPOINTS.page(call)


@api.post("/endpoints", dict[str, Any], key="endpoint", policy="identity:create_endpoint")
async def create_endpoint(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Make an endpoint."""
    new, extra = bodies.read(body, NewEndpoint)
    return await _ENDPOINTS.made(call, lambda tx: catalogue.create_endpoint(tx, new, extra))


@api.get("/endpoints/{endpoint_id}", policy="identity:get_endpoint")
async def show_endpoint(call: Call[Identity]) -> Reply:
    """Show an endpoint."""
    return await _ENDPOINTS.shown(call, catalogue.find_endpoint)


@api.patch(
    "/endpoints/{endpoint_id}", dict[str, Any], key="endpoint", policy="identity:update_endpoint"
)
async def change_endpoint(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Change an endpoint: this is how another service is put in the place of ours."""
    changes, extra = bodies.read(body, EndpointChange, NewEndpoint)
    return await _ENDPOINTS.changed(
        call,
        lambda tx, endpoint_id: catalogue.change_endpoint(tx, endpoint_id, changes, extra),
        body,
    )


@api.delete("/endpoints/{endpoint_id}", policy="identity:delete_endpoint")
async def delete_endpoint(call: Call[Identity]) -> Reply:
    """Delete an endpoint."""
    return await _ENDPOINTS.removed(call, catalogue.remove_endpoint)
