"""/usages: what a project holds."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mooring.errors import Invalid
from mooring.placement import allocations, query
from mooring.placement.api import views
from mooring.placement.service import Placement
from mooring.web.api import Api, Call, Reply

api = Api[Placement]()

_KEYS: dict[str, query.Version] = {
    "project_id": (1, 9),
    "user_id": (1, 9),
    "consumer_type": (1, 38),
}
_UNKNOWN = "unknown"
_ALL = "all"
_Found = dict[str | None, tuple[int, dict[str, int]]]
"""How many consumers of each type there are, and what they hold."""


@api.get("/usages", policy=None, since=(1, 9))
async def show_usages(call: Call[Placement]) -> Reply:
    """Return how much a project holds, from 1.38 on by consumer type."""
    query.check_keys(call.query, _KEYS, call.version)
    project_id = query.single(call.query, "project_id")
    user_id = query.single(call.query, "user_id")
    wanted = query.single(call.query, "consumer_type")
    if not project_id:
        raise Invalid("The query needs a project_id.", code=query.MISSING_VALUE)
    call.require("placement:usages", {"project_id": project_id, "user_id": user_id})
    found = await call.service.store.read(lambda tx: allocations.usages(tx, project_id, user_id))
    if call.version < (1, 38):
        return views.answer(call, {"usages": _sum(found)[1]})
    return views.answer(call, {"usages": _by_type(found, wanted)})


def _by_type(found: _Found, wanted: str | None) -> dict[str, dict[str, Any]]:
    """Show how much consumers hold of each type, of the one that is wanted, or of all at once."""
    if wanted == _ALL:
        shown = {_ALL: _sum(found)}
    else:
        named = {kind or _UNKNOWN: used for kind, used in found.items()}
        shown = {kind: used for kind, used in named.items() if wanted in (None, kind)}
    return {
        kind: {"consumer_count": count, **used} for kind, (count, used) in shown.items() if count
    }


def _sum(found: _Found) -> tuple[int, dict[str, int]]:
    total = Counter[str]()
    for _, used in found.values():
        total.update(used)
    return sum(count for count, _ in found.values()), dict(total)
