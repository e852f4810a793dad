"""/allocation_candidates."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mooring.errors import Invalid
from mooring.placement import candidates, catalogue, inventories, query
from mooring.placement.api import views
from mooring.placement.candidates import Request
from mooring.placement.names import BAD_VALUE
from mooring.placement.query import Version
from mooring.placement.service import Placement
from mooring.web.api import Api, Call, Reply

if TYPE_CHECKING:
    from sqlalchemy.orm import Session
    from starlette.datastructures import QueryParams

api = Api[Placement]()

_KEYS: dict[str, Version] = {
    "resources": (1, 10),
    "limit": (1, 16),
    "required": (1, 17),
    "member_of": (1, 21),
    "group_policy": query.GRANULAR,
    "in_tree": query.IN_TREE,
    "root_required": query.ROOT_REQUIRED,
    "same_subtree": query.SAME_SUBTREE,
}
_GROUP = re.compile(r"(resources|required|member_of|in_tree)([A-Za-z0-9_-]{1,64})")
_NUMBER = re.compile(r"[1-9][0-9]*")


class Answer:
    """What was found for one request, on one view of the data."""

    def __init__(self, tx: Session, request: Request) -> None:
        self.request = request
        self.provider_ids = candidates.find(tx, request)
        self.stocks = inventories.load(tx, self.provider_ids)
        self.used = inventories.uses(tx, self.provider_ids)
        self.traits = catalogue.provider_traits(tx, self.provider_ids)


@api.get("/allocation_candidates", policy="placement:allocation_candidates:list", since=(1, 10))
async def list_candidates(call: Call[Placement]) -> Reply:
    """Return where the resources would fit, as requests that can be written as they are."""
    request = read_request(call.query, call.version)
    found = await call.service.store.read(lambda tx: Answer(tx, request))
    body = {
        "allocation_requests": [_request(call, found, each) for each in found.provider_ids],
        "provider_summaries": {each: _summary(call, found, each) for each in found.provider_ids},
    }
    return views.answer(call, body)


def read_request(parameters: QueryParams, version: Version) -> Request:
    """Read the whole query. Raises Invalid."""
    suffixes = _suffixes(parameters, version)
    groups = {name: query.read_wanted(parameters, version, name) for name in ["", *suffixes]}
    subtrees = _subtrees(parameters, version, groups)
    for suffix in suffixes:
        if not groups[suffix].resources and suffix not in subtrees:
            raise _missing(f"The group {suffix} asks for no resources: add resources{suffix}.")
    if not any(wanted.resources for wanted in groups.values()):
        raise _missing(
            "All request groups must specify resources: add for example resources=VCPU:1."
        )
    required, forbidden = query.read_traits(parameters, "root_required", version)
    return Request(
        groups=groups,
        root=query.Wanted(required=required, forbidden=forbidden),
        isolate=_isolated(parameters, [name for name in suffixes if groups[name].resources]),
        limit=_limit(parameters),
    )


def _suffixes(parameters: QueryParams, version: Version) -> list[str]:
    found: dict[str, None] = {}
    for key in parameters:
        if key in _KEYS and version >= _KEYS[key]:
            continue
        group = _GROUP.fullmatch(key) if version >= query.GRANULAR else None
        if (
            group is None
            or (version < query.LONG_SUFFIXES and not _NUMBER.fullmatch(group[2]))
            or (group[1] == "in_tree" and version < query.IN_TREE)
        ):
            raise Invalid(
                f"Invalid query string parameter: {key[:64]!r} is not known here.", code=BAD_VALUE
            )
        found[group[2]] = None
    return list(found)


def _subtrees(
    parameters: QueryParams, version: Version, groups: Mapping[str, query.Wanted]
) -> set[str]:
    """Return the groups that must be near each other; they may ask for traits alone."""
    if version < query.SAME_SUBTREE:
        return set()
    named = {suffix for value in parameters.getlist("same_subtree") for suffix in value.split(",")}
    unknown = sorted(named - groups.keys())
    if unknown or "" in named:
        raise Invalid(
            f"Invalid same_subtree: there is no group {', '.join(unknown) or repr('')}.",
            code=BAD_VALUE,
        )
    return named


def _isolated(parameters: QueryParams, suffixes: Sequence[str]) -> bool:
    policy = query.single(parameters, "group_policy")
    if policy is None and len(suffixes) > 1:
        raise _missing(
            'The "group_policy" parameter is required when more than one numbered group asks for '
            "resources: none or isolate."
        )
    if policy not in (None, "none", "isolate"):
        raise Invalid(f"group_policy is none or isolate, not {policy[:64]!r}.", code=BAD_VALUE)
    return policy == "isolate"


def _limit(parameters: QueryParams) -> int:
    text = query.single(parameters, "limit")
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text) >= 1):
        raise Invalid(f"limit is a whole number from 1 up, not {text[:64]!r}.", code=BAD_VALUE)
    return int(text)


def _missing(message: str) -> Invalid:
    return Invalid(message, code=query.MISSING_VALUE)


def _request(call: Call[Placement], found: Answer, provider_id: str) -> dict[str, Any]:
    resources = found.request.resources()
    if call.version < (1, 12):
        given = {"resource_provider": {"uuid": provider_id}, "resources": resources}
        return {"allocations": [given]}
    body: dict[str, Any] = {"allocations": {provider_id: {"resources": resources}}}
    if call.version >= (1, 34):
        body["mappings"] = {suffix: [provider_id] for suffix in found.request.suffixes()}
    return body


def _summary(call: Call[Placement], found: Answer, provider_id: str) -> dict[str, Any]:
    asked = found.request.resources()
    resources = {
        name: {
            "capacity": inventories.capacity(inventory),
            "used": found.used.get((provider_id, name), 0),
        }
        for name, inventory in found.stocks.get(provider_id, {}).items()
        if call.version >= (1, 27) or name in asked
    }
    body: dict[str, Any] = {"resources": resources}
    if call.version >= (1, 17):
        body["traits"] = found.traits[provider_id]
    if call.version >= (1, 29):
        body |= {"parent_provider_uuid": None, "root_provider_uuid": provider_id}
    return body
