"""What clients ask about a server's network: there is no network service.

A guest has a card on a network of its own, out of which nothing is reached, or no card at all.
"""

from __future__ import annotations

from typing import Any

from mooring.compute.servers import servers
from mooring.compute.service import Compute
from mooring.errors import Invalid, NotFound
from mooring.web.api import Api, Call, Reply

api = Api[Compute]()

_PORTS = "os_compute_api:os-attach-interfaces:"


@api.get("/servers/{server_id}/ips", policy="os_compute_api:ips:index")
async def list_addresses(call: Call[Compute]) -> Reply:
    """No address: a guest has none that others could reach."""
    await _check_server(call)
    return Reply(200, {"addresses": {}})


@api.get("/servers/{server_id}/ips/{label}", policy="os_compute_api:ips:show")
async def show_addresses(call: Call[Compute]) -> Reply:
    """Say that there is no such network."""
    await _check_server(call)
    raise NotFound(f"Instance has no network {call.path['label']}.")


@api.get("/servers/{server_id}/os-security-groups", policy="os_compute_api:os-security-groups:list")
async def list_security_groups(call: Call[Compute]) -> Reply:
    """No group: there is no network service that would have one."""
    await _check_server(call)
    return Reply(200, {"security_groups": []})


@api.get("/servers/{server_id}/os-interface", policy=f"{_PORTS}list")
async def list_interfaces(call: Call[Compute]) -> Reply:
    """No port."""
    await _check_server(call)
    return Reply(200, {"interfaceAttachments": []})


@api.post("/servers/{server_id}/os-interface", Any, policy=f"{_PORTS}create")
async def attach_interface(call: Call[Compute], body: Any) -> Reply:
    """Say that there is nothing to attach."""
    await _check_server(call)
    raise Invalid("This cloud has no network service, so there is no port to attach.")


@api.get("/servers/{server_id}/os-interface/{port_id}", policy=f"{_PORTS}show")
async def show_interface(call: Call[Compute]) -> Reply:
    """Say that there is no such port."""
    await _check_server(call)
    raise NotFound(f"Port id {call.path['port_id']} could not be found.")


@api.delete("/servers/{server_id}/os-interface/{port_id}", policy=f"{_PORTS}delete")
async def detach_interface(call: Call[Compute]) -> Reply:
    """Say that there is no such port."""
    await _check_server(call)
    raise NotFound(f"Port id {call.path['port_id']} could not be found.")


async def _check_server(call: Call[Compute]) -> None:
    server_id = call.path["server_id"]
    await call.service.store.read(lambda tx: servers.visible(tx, call.who, server_id).id)
