"""Volume types, their extra specs and who may use them: /types."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec import UNSET, Struct, UnsetType, field
from sqlalchemy.orm import Session

from mooring import labels
from mooring.errors import Conflict, Invalid, NotFound
from mooring.volume.service import Volume
from mooring.volume.tables import TypeAccessRow, TypeRow
from mooring.volume.types import type_list, types
from mooring.volume.wire import views
from mooring.volume.wire.api import queries, values
from mooring.volume.wire.api.values import Flag, Metadata, Name
from mooring.web import paging
from mooring.web.api import Api, Call, Reply

api = Api[Volume]()
T = TypeVar("T")

_ACCESS = "volume_extension:volume_type_access"
_LINKS = "volume_type_links"


class TypeBody(Struct, frozen=True):
    """A type to make."""

    name: Name
    description: Name | None = None
    is_public: Flag = field(name="os-volume-type-access:is_public", default=True)
    extra_specs: Metadata | None = None


class TypeChanges(Struct, frozen=True):
    """What to change of a type."""

    name: Name | None = None
    description: Name | UnsetType | None = UNSET
    is_public: Flag | None = None


class AccessBody(Struct, frozen=True):
    """A project that gets or loses access."""

    project: str


@api.get("/types", policy="volume_extension:type_get_all")
async def list_types(call: Call[Volume]) -> Reply:
    """List the types that the caller may use; an administrator chooses by `is_public`."""
    query = queries.types(call)
    rows = await _read(call, lambda tx: type_list.types_of(tx, query))
    answer: dict[str, Any] = {"volume_types": [views.volume_type(call, row) for row in rows]}
    ids = [row.id for row in rows]
    return Reply(200, answer | paging.links(call, "/types", query.page, ids, name=_LINKS))


@api.get("/types/default", policy="volume_extension:type_get")
async def show_default(call: Call[Volume]) -> Reply:
    """Show the type of volumes for which no other was asked."""
    name = call.service.settings.default_type
    row = await _read(call, lambda tx: types.named(tx, call.who, name))
    return _reply(call, row)


@api.get("/types/{type_id}", policy="volume_extension:type_get")
async def show_type(call: Call[Volume]) -> Reply:
    """Show one."""
    return _reply(call, await _read(call, lambda tx: _type(tx, call)))


@api.post("/types", TypeBody, key="volume_type", policy="volume_extension:type_create")
async def create_type(call: Call[Volume], wanted: TypeBody) -> Reply:
    """Make one."""
    row = TypeRow(
        id=str(uuid.uuid4()),
        name=_name(wanted.name),
        description=wanted.description,
        is_public=values.flag(wanted.is_public, "os-volume-type-access:is_public"),
        extra_specs=values.check_metadata(wanted.extra_specs or {}),
        created_at=call.service.clock.now(),
    )
    made = await call.service.store.write(lambda tx: types.create(tx, row))
    return _reply(call, made, without=("qos_specs_id",))


@api.put(
    "/types/{type_id}",
    TypeChanges,
    key="volume_type",
    policy="volume_extension:type_update",
)
async def update_type(call: Call[Volume], changes: TypeChanges) -> Reply:
    """Change name, description, or whether everybody may use it."""

    def change(tx: Session) -> TypeRow:
        row = _type(tx, call)
        if changes.name is not None:
            _rename(tx, call, row, _name(changes.name))
        if changes.description is not UNSET:
            row.description = changes.description
        if changes.is_public is not None:
            row.is_public = values.flag(changes.is_public, "is_public")
        row.updated_at = call.service.clock.now()
        return row

    changed = await call.service.store.write(change)
    return _reply(call, changed, without=("qos_specs_id", "os-volume-type-access:is_public"))


def _rename(tx: Session, call: Call[Volume], row: TypeRow, name: str) -> None:
    if name == row.name:
        return
    if row.name == call.service.settings.default_type:
        raise Invalid(
            "Invalid volume type: The default type cannot be renamed: volumes for which none is "
            "named are of it. Nothing was changed."
        )
    types.rename(tx, row, name)


@api.delete("/types/{type_id}", policy="volume_extension:type_delete")
async def delete_type(call: Call[Volume]) -> Reply:
    """Delete one that no volume has."""

    def remove(tx: Session) -> None:
        row = _type(tx, call)
        if row.name == call.service.settings.default_type:
            raise Invalid("Invalid volume type: The default type cannot be deleted.")
        types.delete(tx, row)

    await call.service.store.write(remove)
    return Reply(202)


@api.get("/types/{type_id}/extra_specs", policy="volume_extension:types_extra_specs:index")
async def list_extra_specs(call: Call[Volume]) -> Reply:
    """List what the type asks of a pool."""
    row = await _read(call, lambda tx: _type(tx, call))
    return Reply(200, {"extra_specs": views.volume_type(call, row)["extra_specs"]})


@api.post(
    "/types/{type_id}/extra_specs",
    Metadata,
    key="extra_specs",
    policy="volume_extension:types_extra_specs:create",
)
async def set_extra_specs(call: Call[Volume], body: Metadata) -> Reply:
    """Add to what the type asks of a pool."""
    added = values.check_metadata(body)
    await _change_specs(call, lambda specs: specs | added)
    return Reply(200, {"extra_specs": added})


@api.get("/types/{type_id}/extra_specs/{key}", policy="volume_extension:types_extra_specs:show")
async def show_extra_spec(call: Call[Volume]) -> Reply:
    """Show one extra spec."""
    row, key = await _read(call, lambda tx: _type(tx, call)), call.path["key"]
    specs = views.volume_type(call, row)["extra_specs"]
    if key not in specs:
        raise _no_spec(call)
    return Reply(200, {key: specs[key]})


@api.put(
    "/types/{type_id}/extra_specs/{key}",
    Metadata,
    policy="volume_extension:types_extra_specs:update",
)
async def set_extra_spec(call: Call[Volume], body: dict[str, str]) -> Reply:
    """Set one extra spec; the body has it alone."""
    if list(body) != [call.path["key"]]:
        raise Invalid("Invalid input received: The body must have the key of the URL and no other.")
    await _change_specs(call, lambda specs: specs | values.check_metadata(body))
    return Reply(200, body)


@api.delete(
    "/types/{type_id}/extra_specs/{key}", policy="volume_extension:types_extra_specs:delete"
)
async def delete_extra_spec(call: Call[Volume]) -> Reply:
    """Remove one extra spec."""
    key = call.path["key"]
    of = f"Volume Type {call.path['type_id']}"
    await _change_specs(call, lambda specs: labels.without(specs, key, of, "extra specs"))
    return Reply(202)


@api.get("/types/{type_id}/os-volume-type-access", policy=f"{_ACCESS}:get_all_for_type")
async def list_access(call: Call[Volume]) -> Reply:
    """List the projects that may use a private type."""

    def look(tx: Session) -> list[str]:
        row = _type(tx, call)
        if row.is_public:
            raise NotFound("Access list not available for public volume types.")
        return types.projects(tx, row)

    type_id, projects = call.path["type_id"], await _read(call, look)
    shown = [{"volume_type_id": type_id, "project_id": project} for project in projects]
    return Reply(200, {"volume_type_access": shown})


@api.action(
    "/types/{type_id}/action",
    "addProjectAccess",
    AccessBody,
    policy=f"{_ACCESS}:addProjectAccess",
)
async def add_access(call: Call[Volume], body: AccessBody) -> Reply:
    """Let a project use a private type."""

    def add(tx: Session) -> None:
        row = _private_type(tx, call)
        if body.project in types.projects(tx, row):
            raise Conflict(
                f"Volume type access for {row.id} / {body.project} combination already exists.",
            )
        tx.add(TypeAccessRow(volume_type_id=row.id, project_id=body.project))

    await call.service.store.write(add)
    return Reply(202)


@api.action(
    "/types/{type_id}/action",
    "removeProjectAccess",
    AccessBody,
    policy=f"{_ACCESS}:removeProjectAccess",
)
async def remove_access(call: Call[Volume], body: AccessBody) -> Reply:
    """Let a project use a private type no more."""

    def remove(tx: Session) -> None:
        row = _private_type(tx, call)
        # The type was found visible just above.
        access = tx.get(TypeAccessRow, (row.id, body.project))
        if access is None:
            raise NotFound(
                f"Volume type access not found for {row.id} / {body.project} combination.",
            )
        tx.delete(access)

    await call.service.store.write(remove)
    return Reply(202)


def _name(given: str) -> str:
    if not given.strip():
        raise Invalid(
            "Invalid input for field/attribute name. Value: ''. It is empty. Nothing was changed; "
            "give the type a name.",
        )
    return given.strip()


def _type(tx: Session, call: Call[Volume]) -> TypeRow:
    return types.visible(tx, call.who, call.path["type_id"])


def _private_type(tx: Session, call: Call[Volume]) -> TypeRow:
    row = _type(tx, call)
    if row.is_public:
        raise Invalid("Invalid volume type: Type access modification is not applicable to public.")
    return row


def _no_spec(call: Call[Volume]) -> NotFound:
    type_id, key = call.path["type_id"], call.path["key"]
    return NotFound(f"Volume Type {type_id} has no extra specs with key {key}.")


async def _change_specs(
    call: Call[Volume], change: Callable[[dict[str, str]], dict[str, str]]
) -> None:
    def apply(tx: Session) -> None:
        row = _type(tx, call)
        row.extra_specs = change(row.extra_specs)
        row.updated_at = call.service.clock.now()

    await call.service.store.write(apply)


async def _read(call: Call[Volume], look: Callable[[Session], T]) -> T:
    return await call.service.store.read(look)


def _reply(call: Call[Volume], row: TypeRow, *, without: Sequence[str] = ()) -> Reply:
    """Show a type. Strict clients know fewer keys in the answer to whoever made or changed one."""
    shown: dict[str, Any] = views.volume_type(call, row)
    return Reply(200, {"volume_type": {key: shown[key] for key in shown if key not in without}})
