"""The routes of a service, found in its modules."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Any, cast

from mooring.web.api import Api, Route

_READING = {"GET", "HEAD"}


def api_modules(service: str) -> Iterator[ModuleType]:
    """Go through the modules of a service that have its routes."""
    package = importlib.import_module(f"mooring.{service}")
    for module in pkgutil.walk_packages(package.__path__, f"mooring.{service}."):
        if "api" in module.name.split("."):
            yield importlib.import_module(module.name)


def routes_of(service: str) -> list[Route]:
    """Return every route of a service."""
    return [route for module in api_modules(service) for route in routes_in(module)]


def routes_in(module: ModuleType) -> list[Route]:
    """Return the routes of a module."""
    found: list[Route] = []
    for api in vars(module).values():
        if isinstance(api, Api):
            found += cast("Api[Any]", api).routes
    return found


def writing_routes(service: str) -> set[str]:
    """Return method, path and action of every route of a service that changes something."""
    return {
        f"{route.method} {route.path} {route.action or ''}".strip()
        for route in routes_of(service)
        if route.method not in _READING
    }
