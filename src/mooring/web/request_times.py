"""How long requests took, by the route that answered them: never by what a client wrote."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from mooring.timings import Timing

if TYPE_CHECKING:
    from mooring.web.api import Route

Place = tuple[str, str, str]
"""Service, method and path of a route; the last two are empty where no route was found."""


class RequestTimes:
    """The requests that one process has answered. There are never more places than routes."""

    def __init__(self) -> None:
        self.times: dict[Place, Timing] = {}
        self.answers: Counter[tuple[Place, int]] = Counter()
        """How many, by place and status code."""

    def note(self, service: str, route: Route | None, status: int, seconds: float) -> None:
        """Count one request, from its headers until its answer was handed on."""
        place = (service, "", "")
        if route is not None:
            path = f"{route.path}#{route.action}" if route.action else route.path
            place = (service, route.method, path)
        timing = self.times.get(place)
        if timing is None:
            timing = self.times[place] = Timing()
        timing.note(seconds)
        self.answers[place, status] += 1
