"""The compute service as an ASGI application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.actions.api import instance_actions
from mooring.compute.events.api import external_events
from mooring.compute.flavors import flavors
from mooring.compute.flavors.api import flavors as flavor_routes
from mooring.compute.hosts.api import availability_zones, hypervisors, services
from mooring.compute.keypairs.api import keypairs
from mooring.compute.policy import RULES
from mooring.compute.quotas.api import limits, quota_sets
from mooring.compute.rebuild.api import server_rebuild
from mooring.compute.servers.api import (
    network_proxies,
    server_actions,
    server_metadata,
    server_networks,
    servers,
    unbuilt,
)
from mooring.compute.service import Compute
from mooring.compute.snapshots.api import assisted_volume_snapshots
from mooring.compute.volumes.api import volume_attachments
from mooring.web import faces, operations
from mooring.web.app import build_app
from mooring.web.policy import Policy

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from mooring.web.face import Face
    from mooring.web.identity import TokenValidator

FACE: Face = replace(faces.COMPUTE, maximum=(2, 105))
"""2.105 is the extend completion (specs 000); 2.106, resize with shares, is advertised once it is
built."""

APIS = (
    servers.api,
    server_actions.api,
    server_rebuild.api,
    server_metadata.api,
    server_networks.api,
    network_proxies.api,
    volume_attachments.api,
    instance_actions.api,
    flavor_routes.api,
    keypairs.api,
    external_events.api,
    assisted_volume_snapshots.api,
    services.api,
    hypervisors.api,
    availability_zones.api,
    limits.api,
    quota_sets.api,
    unbuilt.api,
    operations.build_api(Compute),
)


async def prepare(service: Compute) -> None:
    """Write down what every compute service has from its first start on. Repeatable."""
    now = service.clock.now()
    await service.store.write(lambda tx: flavors.bootstrap(tx, now))


def build(
    service: Compute,
    *,
    validator: TokenValidator,
    public_url: str,
    identity_url: str = "",
    policy: Policy | None = None,
    face: Face = FACE,
) -> ASGIApp:
    """Return the application, to be mounted at the path of `public_url` (`http://host/compute`)."""
    return build_app(
        service,
        APIS,
        face=face,
        validator=validator,
        policy=policy or Policy(RULES),
        public_url=public_url,
        identity_url=identity_url,
        end=service.sagas.end,
    )
