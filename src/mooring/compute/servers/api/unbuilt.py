"""Resources that stock clients list and that this cloud has none of: their lists are empty.

Making one is refused with 501, so that nobody believes it was made (facts/compute.md 10.2, 13.5).
"""

from __future__ import annotations

from mooring.compute.servers import servers
from mooring.compute.service import Compute
from mooring.errors import Invalid
from mooring.web import extensions
from mooring.web.api import Api, Call, Reply

api = Api[Compute]()

_RULE = "os_compute_api:"


@api.get("/servers/{server_id}/diagnostics", policy=f"{_RULE}os-server-diagnostics")
async def show_diagnostics(call: Call[Compute]) -> Reply:
    """Say that diagnostics are not built."""
    await _check_server(call)
    raise _refusal("Diagnostics")


@api.get("/extensions", policy=f"{_RULE}extensions")
async def list_extensions(call: Call[Compute]) -> Reply:
    """List what upstream calls extensions; everything is part of the API."""
    return Reply(200, extensions.show_all(extensions.COMPUTE))


@api.get("/extensions/{alias}", policy=f"{_RULE}extensions")
async def show_extension(call: Call[Compute]) -> Reply:
    """Show one."""
    return Reply(200, extensions.show(extensions.COMPUTE, call.path["alias"]))


async def _check_server(call: Call[Compute]) -> None:
    server_id = call.path["server_id"]
    await call.service.store.read(lambda tx: servers.visible(tx, call.who, server_id).id)


def _refusal(what: str) -> Invalid:
    return Invalid(f"{what} are not built in this cloud. Nothing was changed.", status=501)
