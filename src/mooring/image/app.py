"""The application of the image service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.image import uploads
from mooring.image.api import about, data, images, members
from mooring.image.policy import RULES
from mooring.web import faces
from mooring.web.app import build_app
from mooring.web.policy import Policy

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from mooring.clients.token import TokenValidator
    from mooring.image.service import Image
    from mooring.web.face import Face

APIS = (images.api, data.api, members.api, about.api)


async def prepare(service: Image) -> None:
    """End what a predecessor left: uploads under way, and files that belong to no image."""
    await uploads.recover(service)


async def run(service: Image) -> None:
    """Keep this process's uploads alive and end those of dead ones, until cancelled."""
    await uploads.watch(service)


def build(
    service: Image,
    *,
    validator: TokenValidator,
    public_url: str,
    identity_url: str = "",
    policy: Policy | None = None,
    face: Face = faces.IMAGE,
) -> ASGIApp:
    """Return the image API; `public_url` is its root as clients see it."""
    return build_app(
        service,
        APIS,
        face=face,
        validator=validator,
        policy=policy or Policy(RULES),
        public_url=public_url,
        identity_url=identity_url,
    )
