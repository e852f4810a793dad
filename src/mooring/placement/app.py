"""The application of the placement service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.placement.api import (
    allocations,
    candidates,
    inventories,
    providers,
    reshaper,
    resource_classes,
    traits,
    usages,
)
from mooring.placement.policy import RULES
from mooring.web import faces
from mooring.web.app import build_app
from mooring.web.policy import Policy

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from mooring.clients.token import TokenValidator
    from mooring.placement.service import Placement
    from mooring.web.face import Face

APIS = (
    providers.api,
    inventories.api,
    traits.api,
    resource_classes.api,
    allocations.api,
    candidates.api,
    usages.api,
    reshaper.api,
)


def build(
    service: Placement,
    *,
    validator: TokenValidator,
    public_url: str,
    identity_url: str = "",
    policy: Policy | None = None,
    face: Face = faces.PLACEMENT,
) -> ASGIApp:
    """Return the placement API; `public_url` is its root as clients see it."""
    return build_app(
        service,
        APIS,
        face=face,
        validator=validator,
        policy=policy or Policy(RULES),
        public_url=public_url,
        identity_url=identity_url,
    )
