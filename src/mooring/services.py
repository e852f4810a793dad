"""The services of a cloud, in the order in which they are opened. A new one is one more here."""

from __future__ import annotations

from typing import Any

from mooring.compute.app import SERVICE as COMPUTE
from mooring.identity.app import SERVICE as IDENTITY
from mooring.image.app import SERVICE as IMAGE
from mooring.placement.app import SERVICE as PLACEMENT
from mooring.service import Service
from mooring.share.app import SERVICE as SHARE
from mooring.volume.app import SERVICE as VOLUME

SERVICES: tuple[Service[Any], ...] = (IDENTITY, IMAGE, PLACEMENT, VOLUME, SHARE, COMPUTE)
FLEET = "fleet"
"""The database of the hosts on other machines, which are no service of OpenStack's."""


def databases_of(*, has_fleet: bool) -> list[str]:
    """Return the names of a cloud's databases; that of the fleet where hosts may join."""
    return [*(each.name for each in SERVICES), *([FLEET] if has_fleet else [])]
