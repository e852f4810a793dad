"""The volume service as an ASGI application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.volume.attachments.api import attachments
from mooring.volume.backends.api import operators
from mooring.volume.extend.api import extending
from mooring.volume.policy import RULES
from mooring.volume.quotas.api import quotas
from mooring.volume.reimage.api import reimage
from mooring.volume.service import Volume
from mooring.volume.snapshots.api import snapshots
from mooring.volume.types import types
from mooring.volume.types.api import types as type_routes
from mooring.volume.volumes.api import volume_actions, volumes
from mooring.web import faces, operations
from mooring.web.app import build_app
from mooring.web.policy import Policy

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from mooring.web.face import Face
    from mooring.web.identity import TokenValidator

FACE: Face = replace(faces.VOLUME, maximum=(3, 71))

APIS = (
    volumes.api,
    volume_actions.api,
    extending.api,
    attachments.api,
    type_routes.api,
    quotas.api,
    operators.api,
    reimage.api,
    snapshots.api,
    operations.build_api(Volume),
)


async def prepare(service: Volume) -> None:
    """Write down what every volume service has from its first start on. Repeatable."""
    name, now = service.settings.default_type, service.clock.now()
    await service.store.write(lambda tx: types.ensure_default(tx, name, now))


def build(
    service: Volume,
    *,
    validator: TokenValidator,
    public_url: str,
    identity_url: str = "",
    policy: Policy | None = None,
    face: Face = FACE,
) -> ASGIApp:
    """Return the application, to be mounted at the path of `public_url` (`http://host/volume`)."""
    return build_app(
        service,
        APIS,
        face=face,
        validator=validator,
        policy=policy or Policy(RULES),
        public_url=public_url,
        identity_url=identity_url,
    )
