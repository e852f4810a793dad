"""Share types, their extra specs and who may use them: /types."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import UNSET, Struct, UnsetType, field
from sqlalchemy.orm import Session

from mooring import labels
from mooring.errors import Conflict, Forbidden, Invalid, NotFound
from mooring.share.service import Share
from mooring.share.services import matching
from mooring.share.tables import TypeAccessRow, TypeRow
from mooring.share.types import types
from mooring.share.wire import views
from mooring.share.wire.api import values
from mooring.share.wire.api.values import Flag, Name
from mooring.web.api import Api, Call, Reply

api = Api[Share]()
T = TypeVar("T")
Specs = dict[str, str | bool | int]

_TYPE, _ACTION = "/types/{type_id}", "/types/{type_id}/action"
_UPDATED_SINCE = (2, 50)
_DESCRIBED_SINCE = (2, 41)
_SNAPSHOTS, _SNAPSHOTS_UNTIL = "snapshot_support", (2, 23)
"""The extra spec that every type had, and the last version in which it did."""
_SPEC_LENGTH = 255


class TypeBody(Struct, frozen=True):
    """A type to make. Up to 2.6 `is_public` has `os-` before it."""

    name: Name
    extra_specs: Specs
    description: Name | None = None
    is_public: Flag = field(name="share_type_access:is_public", default=True)
    was_public: Flag | None = field(name="os-share-type-access:is_public", default=None)


class TypeChanges(Struct, frozen=True):
    """What to change of a type."""

    name: Name | None = None
    description: Name | UnsetType | None = UNSET
    is_public: Flag | None = field(name="share_type_access:is_public", default=None)


class AccessBody(Struct, frozen=True):
    """A project that gets or loses access."""

    project: str


@api.get("/types", policy="share_type:index")
async def list_types(call: Call[Share]) -> Reply:
    """List the types that the caller may use; an administrator chooses by `is_public`."""
    public = _read_public(call)
    rows = await _read(call, lambda tx: types.find(tx, call.who, public=public))
    specs = values.pairs(call.query.get("extra_specs", "{}"), "extra_specs")
    found = [row for row in rows if specs.items() <= row.extra_specs.items()]
    shown = [_show(call, row) for row in found]
    return Reply(200, {"share_types": shown, "volume_types": shown})


@api.get("/types/default", policy="share_type:default")
async def show_default(call: Call[Share]) -> Reply:
    """Show the type of shares for which no other was asked."""
    name = call.service.settings.default_type
    return _reply(call, await _read(call, lambda tx: types.named(tx, call.who, name)))


@api.get(_TYPE, policy="share_type:show")
async def show_type(call: Call[Share]) -> Reply:
    """Show one."""
    return _reply(call, await _read(call, lambda tx: _type(tx, call)))


@api.post("/types", TypeBody, key="share_type", policy="share_type:create")
async def create_type(call: Call[Share], wanted: TypeBody) -> Reply:
    """Make one."""
    return await _create(call, wanted)


@api.put(_TYPE, TypeChanges, key="share_type", policy="share_type:update", since=_UPDATED_SINCE)
async def update_type(call: Call[Share], changes: TypeChanges) -> Reply:
    """Change name, description, or whether everybody may use it."""

    def change(tx: Session) -> TypeRow:
        row = _type(tx, call)
        _apply(tx, row, changes, default=call.service.settings.default_type)
        row.updated_at = call.service.clock.now()
        return row

    return _reply(call, await call.service.store.write(change))


@api.delete(_TYPE, policy="share_type:delete")
async def delete_type(call: Call[Share]) -> Reply:
    """Delete one that no share has."""
    if call.service.settings.default_type == (await _read(call, lambda tx: _type(tx, call))).name:
        raise Invalid("Invalid share type: The default type cannot be deleted.")
    await call.service.store.write(lambda tx: types.remove(tx, _type(tx, call)))
    return Reply(202)


@api.get(f"{_TYPE}/extra_specs", policy="share_types_extra_spec:index")
async def list_extra_specs(call: Call[Share]) -> Reply:
    """List what the type asks of a pool."""
    row = await _read(call, lambda tx: _type(tx, call))
    return Reply(200, {"extra_specs": row.extra_specs})


@api.post(f"{_TYPE}/extra_specs", Specs, key="extra_specs", policy="share_types_extra_spec:create")
async def set_extra_specs(call: Call[Share], body: Specs) -> Reply:
    """Add to what the type asks of a pool."""
    added = _check_specs(body)
    await _change_specs(call, lambda specs: specs | added)
    return Reply(200, {"extra_specs": added})


@api.get(f"{_TYPE}/extra_specs/{{key}}", policy="share_types_extra_spec:show")
async def show_extra_spec(call: Call[Share]) -> Reply:
    """Show one extra spec."""
    row, key = await _read(call, lambda tx: _type(tx, call)), call.path["key"]
    if key not in row.extra_specs:
        raise _no_spec(call)
    return Reply(200, {key: row.extra_specs[key]})


@api.put(f"{_TYPE}/extra_specs/{{key}}", Specs, policy="share_types_extra_spec:update")
async def set_extra_spec(call: Call[Share], body: Specs) -> Reply:
    """Set one extra spec; the body has it alone."""
    if list(body) != [call.path["key"]]:
        raise Invalid("Invalid input received: The body must have the key of the URL and no other.")
    added = _check_specs(body)
    await _change_specs(call, lambda specs: specs | added)
    return Reply(200, added)


@api.delete(f"{_TYPE}/extra_specs/{{key}}", policy="share_types_extra_spec:delete")
async def delete_extra_spec(call: Call[Share]) -> Reply:
    """Remove one extra spec, but none that every type has."""
    key = call.path["key"]
    _require_optional(call, key)
    of = f"Share Type {call.path['type_id']}"
    await _change_specs(call, lambda specs: labels.without(specs, key, of, "extra specs"))
    return Reply(202)


@api.get(f"{_TYPE}/os-share-type-access", policy="share_type:list_project_access", until=(2, 6))
@api.get(f"{_TYPE}/share_type_access", policy="share_type:list_project_access", since=(2, 7))
async def list_access(call: Call[Share]) -> Reply:
    """List the projects that may use a private type."""

    def look(tx: Session) -> list[str]:
        row = _type(tx, call)
        if row.is_public:
            raise NotFound("Access list not available for public share types.")
        return types.projects(tx, row)

    type_id, projects = call.path["type_id"], await _read(call, look)
    shown = [{"share_type_id": type_id, "project_id": project} for project in projects]
    return Reply(200, {"share_type_access": shown})


@api.action(_ACTION, "addProjectAccess", AccessBody, policy="share_type:add_project_access")
async def add_access(call: Call[Share], body: AccessBody) -> Reply:
    """Let a project use a private type."""

    def add(tx: Session) -> None:
        row = _private_type(tx, call)
        if body.project in types.projects(tx, row):
            raise Conflict(
                f"Share type access for {row.id} / {body.project} combination already exists.",
            )
        tx.add(TypeAccessRow(share_type_id=row.id, project_id=body.project))

    await call.service.store.write(add)
    return Reply(202)


@api.action(_ACTION, "removeProjectAccess", AccessBody, policy="share_type:remove_project_access")
async def remove_access(call: Call[Share], body: AccessBody) -> Reply:
    """Let a project use a private type no more."""

    def remove(tx: Session) -> None:
        row = _private_type(tx, call)
        # The type was found visible just above.
        found = tx.get(TypeAccessRow, (row.id, body.project))
        if found is None:
            raise NotFound(
                f"Share type access not found for {row.id} / {body.project} combination.",
            )
        tx.delete(found)

    await call.service.store.write(remove)
    return Reply(202)


async def _create(call: Call[Share], wanted: TypeBody) -> Reply:
    name = wanted.name.strip()
    if not name or name == "default":
        raise Invalid(
            f"Invalid input for field/attribute name. Value: '{name}'. A type has a name, and not "
            "`default`, by which no client could ask for it. Nothing was made.",
        )
    if wanted.description and call.version < _DESCRIBED_SINCE:
        raise Invalid(
            "Invalid input received: Share types have descriptions from microversion 2.41 on. "
            "Nothing was made.",
        )
    specs = _check_specs(wanted.extra_specs)
    if call.version <= _SNAPSHOTS_UNTIL:
        specs.setdefault(_SNAPSHOTS, "True")
    if types.REQUIRED not in specs:
        raise Invalid(
            f"Invalid share type: The extra spec {types.REQUIRED} is missing. Nothing was made.",
        )
    public = wanted.is_public if wanted.was_public is None else wanted.was_public
    row = TypeRow(
        id=str(uuid.uuid4()),
        name=name,
        description=wanted.description or None,
        is_public=values.flag(public, "share_type_access:is_public"),
        extra_specs=specs,
        created_at=call.service.clock.now(),
    )
    made = await call.service.store.write(lambda tx: types.create(tx, row))
    return _reply(call, made)


def _apply(tx: Session, row: TypeRow, changes: TypeChanges, *, default: str) -> None:
    if changes.name is not None:
        name = changes.name.strip()
        if not name or name == "default":
            raise Invalid(f"Invalid input for field/attribute name. Value: '{name}'.")
        if row.name == default and name != default:
            raise Invalid(
                "Invalid share type: The default type cannot be renamed: shares for which none is "
                "named are of it. Nothing was changed."
            )
        types.rename(tx, row, name)
    if changes.description is not UNSET:
        row.description = changes.description or None
    if changes.is_public is not None:
        row.is_public = values.flag(changes.is_public, "share_type_access:is_public")


def _check_specs(given: Specs) -> dict[str, str]:
    """Return extra specs as they are kept. Raises Invalid for what no pool here can do."""
    specs = {key: str(value) for key, value in given.items()}
    values.check_metadata(specs)
    for key, value in specs.items():
        if len(value) > _SPEC_LENGTH:
            raise Invalid(
                f"Invalid input for field/attribute extra_specs. The value of {key} has "
                f"{len(value)} characters, and at most {_SPEC_LENGTH} are kept. Nothing was "
                "changed.",
            )
    if matching.is_true(specs.get(types.REQUIRED, "False")):
        raise Invalid(
            f"Invalid share type: {types.REQUIRED}=True is not built here: hosts serve shares "
            "themselves, without share networks. Nothing was changed; use False.",
        )
    return specs


def _read_public(call: Call[Share]) -> bool | None:
    """Return which types an administrator asks for; None: public and private ones."""
    wanted = call.query.get("is_public", "true").lower()
    if not call.who.is_admin or wanted in {"none", "all"}:
        return None
    return values.flag(wanted, "is_public")


def _require_optional(call: Call[Share], key: str) -> None:
    if key == types.REQUIRED:
        raise Forbidden(f"Every share type has the extra spec {key}. Nothing was changed.")
    if key == _SNAPSHOTS and call.version <= _SNAPSHOTS_UNTIL:
        raise Forbidden(
            f"Up to microversion 2.23 every share type has the extra spec {key}. Nothing was "
            "changed; ask in 2.24 or later.",
        )


def _type(tx: Session, call: Call[Share]) -> TypeRow:
    return types.visible(tx, call.who, call.path["type_id"])


def _private_type(tx: Session, call: Call[Share]) -> TypeRow:
    row = _type(tx, call)
    if row.is_public:
        raise Conflict("Type access modification is not applicable to public share type.")
    return row


def _no_spec(call: Call[Share]) -> NotFound:
    type_id, key = call.path["type_id"], call.path["key"]
    return NotFound(f"Share Type {type_id} has no extra specs with key {key}.")


async def _change_specs(
    call: Call[Share], change: Callable[[dict[str, str]], dict[str, str]]
) -> None:
    def apply(tx: Session) -> None:
        row = _type(tx, call)
        row.extra_specs = change(row.extra_specs)
        row.updated_at = call.service.clock.now()

    await call.service.store.write(apply)


async def _read(call: Call[Share], look: Callable[[Session], T]) -> T:
    return await call.service.store.read(look)


def _show(call: Call[Share], row: TypeRow) -> dict[str, Any]:
    return views.share_type(call, row, call.service.settings.default_type)


def _reply(call: Call[Share], row: TypeRow) -> Reply:
    shown = _show(call, row)
    return Reply(200, {"share_type": shown, "volume_type": shown})
