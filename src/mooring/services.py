"""The services of a cloud, in the order in which they are opened. A new one is one more here."""

from __future__ import annotations

from typing import Any

from mooring.compute.app import SERVICE as COMPUTE
from mooring.identity.app import SERVICE as IDENTITY
from mooring.image.app import SERVICE as IMAGE
from mooring.placement.app import SERVICE as PLACEMENT
from mooring.service import Service
from mooring.volume.app import SERVICE as VOLUME

SERVICES: tuple[Service[Any], ...] = (IDENTITY, IMAGE, PLACEMENT, VOLUME, COMPUTE)
