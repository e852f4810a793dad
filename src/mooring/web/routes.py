"""Finding the registration that a request means: a tree of path segments, built once."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from mooring.errors import Bug, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mooring.web.api import Route, Version


class _Node:
    """One segment of a path: the fixed segments that may follow it, and a named one."""

    __slots__ = ("fixed", "named", "routes")

    def __init__(self) -> None:
        self.fixed: dict[str, _Node] = {}
        self.named: _Node | None = None
        self.routes: dict[str, list[Route]] = {}

    def add(self, part: str) -> _Node:
        """Return a new node for a segment that follows this one."""
        node = _Node()
        if _is_named(part):
            self.named = node
        else:
            self.fixed[part] = node
        return node


class Match:
    """The registrations of one path, by method, and the values of its named segments."""

    __slots__ = ("_node", "_values")

    def __init__(self, node: _Node, values: Sequence[str]) -> None:
        self._node, self._values = node, values

    @property
    def methods(self) -> list[str]:
        """The methods that the path has in any version, for `Allow`."""
        names = set(self._node.routes)
        return sorted(names | {"HEAD"} if "GET" in names else names)

    def routes(self, method: str) -> list[Route]:
        """Return the registrations of a method; those of GET serve HEAD too."""
        found = self._node.routes.get(method, [])
        return found or (self._node.routes.get("GET", []) if method == "HEAD" else [])

    def values(self, route: Route) -> dict[str, str]:
        """Return the named segments of the path, under the names that `route` gives them."""
        names = [part[1:-1] for part in _parts(route.path) if _is_named(part)]
        return dict(zip(names, self._values, strict=True))


class Routes:
    """All registrations of one service. Raises Bug when two of them claim the same request."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Node()
        for route in routes:
            self._add(route)

    def find(self, parts: Sequence[str]) -> Match | None:
        """Return what is registered for a path of decoded segments; None for an unknown path."""
        values: list[str] = []
        node = _descend(self._root, parts, 0, values)
        return Match(node, values) if node else None

    def _add(self, route: Route) -> None:
        node = self._root
        for part in _parts(route.path):
            following = node.named if _is_named(part) else node.fixed.get(part)
            node = following or node.add(part)
        others = node.routes.setdefault(route.method, [])
        for other in others:
            if bool(other.action) != bool(route.action):
                raise Bug(f"{route.method} {route.path} has actions and a plain handler.")
            if other.action == route.action and _overlap(other, route):
                raise Bug(f"{route.method} {route.path} {route.action} is registered twice.")
        others.append(route)


def choose(routes: Iterable[Route], version: Version) -> Route:
    """Return the registration that exists in `version`. Raises NotFound when none does.

    It says from which version on one does.
    """
    tried = list(routes)
    for route in tried:
        if route.serves(version):
            return route
    later = [route.since for route in tried if route.since and route.since > version]
    if later:
        since = min(later)
        raise NotFound(
            "The resource could not be found: it does not exist in the requested API version "
            f"{version[0]}.{version[1]}, but from {since[0]}.{since[1]} on. Ask for that version."
        )
    raise NotFound(
        "The resource could not be found: it does not exist in the requested API version "
        f"{version[0]}.{version[1]}."
    )


def _descend(node: _Node, parts: Sequence[str], at: int, values: list[str]) -> _Node | None:
    if at == len(parts):
        return node if node.routes else None
    fixed = node.fixed.get(parts[at])
    if fixed is not None:
        found = _descend(fixed, parts, at + 1, values)
        if found is not None:
            return found
    if node.named is None or not parts[at]:
        return None
    values.append(parts[at])
    found = _descend(node.named, parts, at + 1, values)
    if found is None:
        values.pop()
    return found


@cache
def _parts(path: str) -> tuple[str, ...]:
    """Return the segments of a registered path. Every start and every request asks for them."""
    return tuple(part for part in path.split("/") if part)


def _is_named(part: str) -> bool:
    return part[0] == "{" and part[-1] == "}"


def _overlap(one: Route, other: Route) -> bool:
    newest: Version = (1 << 30, 0)
    return (one.since or (0, 0)) <= (other.until or newest) and (other.since or (0, 0)) <= (
        one.until or newest
    )
