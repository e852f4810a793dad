"""Requests as they should be, and a little beside that: drawn from the routes themselves.

What changes something is a case of `tests/crowd`, with what it stands on; what only reads is a
route. Queries are made of the words that a service's own modules have, so that a filter of tomorrow
is asked for without being listed here.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Mapping
from functools import cache
from random import Random
from types import ModuleType
from typing import Any, cast
from urllib.parse import quote, urlencode

from msgspec import Struct, field
from sqlalchemy.orm import InstrumentedAttribute

from tests.crowd.case import Case
from tests.crowd.routes import api_modules, routes_of
from tests.fuzz import odd

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{1,40}")
_NAMED = re.compile(r"\{\w+\}")
_VERSIONED = {"compute": (2, 106), "volume": (3, 71), "share": (2, 82), "placement": (1, 39)}
_USERS = ("admin", "admin", "admin", "demo", "demo", "volume", "compute", "")
_HEADERS = (
    "x-auth-token",
    "x-service-token",
    "x-subject-token",
    "x-openstack-request-id",
    "openstack-api-version",
    "x-openstack-nova-api-version",
    "x-openstack-manila-api-version",
    "content-type",
    "accept",
    "range",
    "x-forwarded-for",
)


class Question(Struct, frozen=True, kw_only=True):
    """One request. A `version` that is empty is not sent."""

    method: str
    path: str
    body: bytes | None = None
    user: str = "admin"
    version: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])


def ask(chance: Random, service: str, root: str, case: Case, names: Mapping[str, str]) -> Question:
    """Return the request of a case, bent in a place or two, or left as it is."""
    method, path, body = case.request(chance.randrange(8), dict(names))
    if body is not None and not isinstance(body, bytes):
        for _ in range(chance.choice((0, 1, 1, 1, 2))):
            body = odd.bend(chance, body)
        body = odd.content(chance, body)
    query = _query(chance, service, 0.1)
    headers = _headers(chance)
    if body is not None:
        headers = {"content-type": case.media or "application/json", **headers}
    return Question(
        method=method,
        path=root + _bend_path(chance, path, 0.1) + query,
        body=body,
        user=case.user if chance.random() < 0.7 else chance.choice(_USERS),
        version=_version(chance, service, case.version),
        headers=headers,
    )


def read(chance: Random, service: str, root: str, known: list[str]) -> Question:
    """Return a request that changes nothing, about what is `known`: ids that answers had."""
    template = chance.choice(reading_routes(service))
    path = _NAMED.sub(lambda _: _part(chance.choice(known)) if known else "x", template)
    return Question(
        method="GET",
        path=root + _bend_path(chance, path, 0.1) + _query(chance, service, 0.7),
        user=chance.choice(_USERS),
        version=_version(chance, service, "latest"),
        headers=_headers(chance),
    )


def _bend_path(chance: Random, path: str, often: float) -> str:
    parts = path.split("/")
    if len(parts) > 1 and chance.random() < often:
        parts[chance.randrange(1, len(parts))] = _part(chance.choice(odd.TEXTS))
    return "/".join(parts)


def _part(text: str) -> str:
    """Return a text as a part of a path: clients send ASCII alone."""
    return quote(text, safe="%", errors="surrogatepass")


def _query(chance: Random, service: str, often: float) -> str:
    if chance.random() >= often:
        return ""
    pairs = list[tuple[str, str]]()
    for _ in range(chance.choice((1, 1, 2, 4))):
        words = chance.choice((words_of(service), columns_of(service) or words_of(service)))
        pairs.append((chance.choice(words), chance.choice(odd.TEXTS)))
    return "?" + urlencode(pairs, errors="surrogatepass")


def _headers(chance: Random) -> dict[str, str]:
    if chance.random() < 0.95:
        return {}
    # What HTTP servers do not let through no application sees.
    text = "".join(each for each in chance.choice(odd.TEXTS) if " " <= each <= "~")
    return {chance.choice(_HEADERS): text}


def _version(chance: Random, service: str, usual: str) -> str:
    newest = _VERSIONED.get(service)
    if newest is None:
        return ""
    if chance.random() < 0.6:
        return usual
    return f"{newest[0]}.{chance.randrange(newest[1] + 1)}"


@cache
def reading_routes(service: str) -> list[str]:
    """Return the paths of a service that can be read, with braces for what they name."""
    return sorted({route.path for route in routes_of(service) if route.method == "GET"})


@cache
def words_of(service: str) -> list[str]:
    """Return the texts in a service's routes that could be the name of a filter."""
    return sorted(set[str]().union(*map(words_in, api_modules(service))))


def words_in(module: ModuleType) -> set[str]:
    """Return the texts in a module that could be the name of a filter."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if _WORD.fullmatch(node.value):
                found.add(node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


@cache
def columns_of(service: str) -> list[str]:
    """Return what the lists of a service call the columns that they filter and sort by."""
    package = importlib.import_module(f"mooring.{service}")
    found: set[str] = set()
    for one in pkgutil.walk_packages(package.__path__, f"mooring.{service}."):
        for value in vars(importlib.import_module(one.name)).values():
            if isinstance(value, Mapping):
                columns = cast("Mapping[Any, Any]", value)
                found |= {
                    str(name)
                    for name, column in columns.items()
                    if isinstance(column, InstrumentedAttribute)
                }
    return sorted(found)
