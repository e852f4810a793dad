"""The writing routes of a service, found in its modules."""

from __future__ import annotations

import importlib
import pkgutil

from mooring.web.api import Api

_READING = {"GET", "HEAD"}


def writing_routes(service: str) -> set[str]:
    """Return method, path and action of every route of a service that changes something."""
    package = importlib.import_module(f"mooring.{service}")
    found: set[str] = set()
    for module in pkgutil.walk_packages(package.__path__, f"mooring.{service}."):
        if "api" not in module.name.split("."):
            continue
        for api in vars(importlib.import_module(module.name)).values():
            if isinstance(api, Api):
                found |= {
                    f"{route.method} {route.path} {route.action or ''}".strip()
                    for route in api.routes
                    if route.method not in _READING
                }
    return found
