"""What every table of the compute service is made from."""

from __future__ import annotations

from mooring.store.base import service_base

Base = service_base("compute")
