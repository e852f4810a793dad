"""/os-server-groups (facts/compute.md 10.2, 11.5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from sqlalchemy.orm import Session

from mooring.compute.groups import groups
from mooring.compute.groups.groups import NewGroup, Policy
from mooring.compute.service import Compute
from mooring.compute.tables import ServerGroup
from mooring.compute.wire.api import queries
from mooring.compute.wire.api.values import Name, Whole, read_truth, whole
from mooring.errors import Invalid
from mooring.web import paging
from mooring.web.api import Api, Call, Reply, Version
from mooring.web.bodies import Required, Since, Until, Was

api = Api[Compute]()

_RULE = "os_compute_api:os-server-groups:"
_OWNED_SINCE: Version = (2, 13)
_POLICY_SINCE: Version = (2, 64)
_One = Meta(min_length=1, max_length=1)
_Hard = Literal["affinity", "anti-affinity"]


class Rules(Struct, frozen=True, forbid_unknown_fields=True):
    """What a policy is told beside its name."""

    max_server_per_host: Whole | UnsetType = UNSET


class GroupBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group to make: up to 2.63 with a list of one policy."""

    name: Name
    policies: Annotated[
        Annotated[list[Policy], _One] | UnsetType,
        Was(Annotated[list[_Hard], _One] | UnsetType, (2, 14)),
        Required(2, 1),
        Until(2, 63),
    ] = UNSET
    policy: Annotated[Policy | UnsetType, Since(2, 64), Required(2, 64)] = UNSET
    rules: Annotated[Rules | UnsetType, Since(2, 64)] = UNSET


@api.get("/os-server-groups", policy=f"{_RULE}index")
async def list_server_groups(call: Call[Compute]) -> Reply:
    """List the groups of the caller's project, or of all where an administrator asks for them."""
    queries.check_keys(call, ("all_projects", "limit", "offset"))
    page = paging.read(call.query)
    project_id = None if _asks_for_all(call) else call.who.project_id

    def read(tx: Session) -> list[dict[str, Any]]:
        found = groups.page(tx, project_id, offset=page.offset, limit=page.limit)
        return _shown(tx, call.version, found)

    return Reply(200, {"server_groups": await call.service.store.read(read)})


@api.post(
    "/os-server-groups", GroupBody, key="server_group", only_key=True, policy=f"{_RULE}create"
)
async def create_server_group(call: Call[Compute], body: GroupBody) -> Reply:
    """Make an empty group."""
    new, now = _read_new(body), call.service.clock.now()

    def write(tx: Session) -> dict[str, Any]:
        return _shown(tx, call.version, [groups.create(tx, call.who, new, now)])[0]

    return Reply(200, {"server_group": await call.service.store.write(write)})


@api.get("/os-server-groups/{group_id}", policy=f"{_RULE}show")
async def show_server_group(call: Call[Compute]) -> Reply:
    """One group with its members."""

    def read(tx: Session) -> dict[str, Any]:
        group = groups.visible(tx, call.who, call.path["group_id"])
        return _shown(tx, call.version, [group])[0]

    return Reply(200, {"server_group": await call.service.store.read(read)})


@api.delete("/os-server-groups/{group_id}", policy=f"{_RULE}delete")
async def delete_server_group(call: Call[Compute]) -> Reply:
    """Delete a group; its servers stay where they are."""
    await call.service.store.write(lambda tx: groups.remove(tx, call.who, call.path["group_id"]))
    return Reply(204)


def _asks_for_all(call: Call[Compute]) -> bool:
    """Tell whether all projects are meant: who may not see them gets the own ones."""
    if "all_projects" not in call.query:
        return False
    text = call.query["all_projects"]
    asks = read_truth(text, "all_projects") if text else True
    return asks and call.allowed(f"{_RULE}index:all_projects")


def _read_new(body: GroupBody) -> NewGroup:
    policy = body.policy or (body.policies[0] if body.policies else None)
    if policy is None:
        raise Invalid("Invalid input for field/attribute policies: one policy is needed.")
    if not body.rules:
        return NewGroup(body.name, policy)
    most = body.rules.max_server_per_host
    if most is UNSET:
        return NewGroup(body.name, policy)
    if policy != "anti-affinity":
        raise Invalid("Only anti-affinity policy supports rules. Nothing was created.")
    return NewGroup(body.name, policy, whole(most, "max_server_per_host", least=1))


def _shown(tx: Session, version: Version, rows: Sequence[ServerGroup]) -> list[dict[str, Any]]:
    members = groups.members(tx, [row.id for row in rows])
    return [_show(row, version, members.get(row.id, [])) for row in rows]


def _show(row: ServerGroup, version: Version, members: list[str]) -> dict[str, Any]:
    body: dict[str, Any] = {"id": row.id, "name": row.name, "members": members}
    if version >= _OWNED_SINCE:
        body |= {"project_id": row.project_id, "user_id": row.user_id}
    if version < _POLICY_SINCE:
        return body | {"policies": [row.policy], "metadata": {}}
    most = row.max_server_per_host
    return body | {"policy": row.policy, "rules": {"max_server_per_host": most} if most else {}}
