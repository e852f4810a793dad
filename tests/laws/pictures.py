"""Pictures of what an operation calls, in order, as it is seen between the services."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from msgspec import Struct

from mooring.errors import Conflict
from mooring.fence import operation as operations
from tests.laws.sites import Call

SERVICES = {
    "/compute/v2.1": "compute",
    "/volume/v3": "volume",
    "/image/v2": "image",
    "/identity/v3": "identity",
    "/placement": "placement",
    "/share/v2": "share",
}
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")
_KINDS = {
    "allocations": "consumer",
    **dict.fromkeys(("exports", "connections"), "attachment"),
    **dict.fromkeys(("access", "share-access-rules"), "rule"),
}
"""What is named by the id behind a word of a path, where the word does not say it."""
_BETWEEN_VOLUMES = ("/volumes/", "/images/")
"""What only the volume service asks of a host."""
_ASKERS = {"compute": "volume", "identity": "image"}
"""Who alone looks at a service."""
_ORDER = ["user", "compute", "volume", "share", "placement", "image", "identity"]


class Arrow(Struct, frozen=True):
    """One call: from whom to whom, as part of which step; empty for one that only looks."""

    asker: str
    asked: str
    what: str
    step: str


_LOOK = "GET /host"
"""Of several hosts in a row no operation asks how they are."""


class Watcher:
    """Keeps what was called, and refuses the n-th change (from 1) for good; none with 0."""

    def __init__(self, refused: int = 0) -> None:
        self.refused, self.calls = refused, list[Call]()

    async def pass_on(self, call: Call) -> Any:
        """Deliver a call, or refuse it."""
        self.calls.append(call)
        if call.operation and self.refused == sum(bool(one.operation) for one in self.calls):
            raise Conflict("It will not go.")
        return await call.forward()


def draw(calls: list[Call], names: Mapping[str, str], sagas: Mapping[str, str]) -> list[Arrow]:
    """Return the calls as arrows. `names` are those of a site, `sagas` names sagas by id.

    Who looks again and again until something is there is drawn once, and who only sees how hosts
    are is not.
    """
    known, arrows = {identity: f"{{{role}}}" for role, identity in names.items()}, list[Arrow]()
    for call in calls:
        method, _, path = call.what.partition(" ")
        asked = call.at or next(name for root, name in SERVICES.items() if path.startswith(root))
        shown = _name_ids(_strip(path), known)
        operation = operations.parse(call.operation)
        step = operation.step.partition(":")[0] if operation else ""
        saga = sagas[operation.saga] if operation else ""
        asker = saga.partition(".")[0] or _guess_asker(asked, path, arrows)
        arrow = Arrow(asker, asked, f"{method} {shown}", step)
        if step or not arrows or arrows[-1] != arrow:
            arrows.append(arrow)
    runs = [list(run) for _, run in groupby(arrows, lambda one: one.what == _LOOK)]
    return [one for run in runs for one in run if one.what != _LOOK or len(run) == 1]


def mermaid(request: str, arrows: list[Arrow]) -> Iterator[str]:
    """Yield the lines of a sequence diagram, which begins with what the user asks for."""
    yield "sequenceDiagram"
    yield "    autonumber"
    seen = {"user", "compute", *(name for one in arrows for name in (one.asker, one.asked))}
    for name in [*filter(seen.__contains__, _ORDER), *sorted(seen.difference(_ORDER))]:
        yield f"    {'actor' if name == 'user' else 'participant'} {name}"
    first = arrows[0].asker
    yield f"    user->>{first}: {request}"
    for one in arrows:
        line = "->>" if one.step else "-->>"
        yield f"    {one.asker}{line}{one.asked}: {one.what}"


def _strip(path: str) -> str:
    path = path.partition("?")[0]
    root = next((root for root in SERVICES if path.startswith(root)), "")
    return path.removeprefix(root) or "/"


def _name_ids(path: str, known: dict[str, str]) -> str:
    """Return a path with names in place of ids; ids that have none yet get one, by their kind."""
    words = path.split("/")
    for place, word in enumerate(words):
        if not _ID.fullmatch(word):
            # An operation that is asked about: a saga's id, the step, and the item it was for.
            words[place] = _ID.sub("{id}", word)
            continue
        if word not in known:
            before = words[place - 1]
            kind = _KINDS.get(before, before.removesuffix("s"))
            count = sum(name.startswith(f"{{{kind}") for name in known.values())
            known[word] = f"{{{kind} {count + 1}}}" if count else f"{{{kind}}}"
        words[place] = known[word]
    return "/".join(words)


def _guess_asker(asked: str, path: str, before: list[Arrow]) -> str:
    """Say who looked: a call that changes nothing names no operation."""
    if asked in _ASKERS:
        return _ASKERS[asked]
    if asked == "image":
        return before[-1].asked if before and before[-1].asked == "volume" else "compute"
    if asked not in _ORDER and path.startswith("/shares/"):
        return "share"
    if asked not in _ORDER and path.startswith(_BETWEEN_VOLUMES):
        return "volume"
    return "compute"
