"""Lists of servers: which rows, in what order, and what belongs to them (facts/compute.md 10.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from msgspec import Struct, defstruct
from msgspec.structs import replace
from sqlalchemy import ColumnElement, and_, func, not_, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from mooring import limits
from mooring.compute.groups import groups
from mooring.compute.moves import migration_list
from mooring.compute.tables import BlockDevice, Fault, Host, Server, ServerMetadata, ServerTag
from mooring.compute.wire import keyset
from mooring.compute.wire.keyset import SortKey
from mooring.errors import Invalid

EQUAL_COLUMNS: Mapping[str, InstrumentedAttribute[Any]] = {
    "access_ip_v4": Server.access_ip_v4,
    "access_ip_v6": Server.access_ip_v6,
    "availability_zone": Server.zone,
    "config_drive": Server.config_drive,
    "created_at": Server.created_at,
    "flavor": Server.flavor_id,
    "host": Server.host,
    "hostname": Server.hostname,
    "image": Server.image_id,
    "key_name": Server.key_name,
    "launch_index": Server.launch_index,
    "launched_at": Server.launched_at,
    "locked_by": Server.locked_by,
    "power_state": Server.power_state,
    "project_id": Server.project_id,
    "reservation_id": Server.reservation_id,
    "root_device_name": Server.root_device_name,
    "task_state": Server.task_state,
    "terminated_at": Server.terminated_at,
    "user_id": Server.user_id,
    "uuid": Server.id,
    "vm_state": Server.vm_state,
}
"""Filters that compare a column with one value."""

PATTERN_COLUMNS: Mapping[str, InstrumentedAttribute[Any]] = {
    "description": Server.description,
    "name": Server.name,
}
"""Filters that search a column with a regular expression."""

SORT_COLUMNS: Mapping[str, InstrumentedAttribute[Any]] = {
    "access_ip_v4": Server.access_ip_v4,
    "access_ip_v6": Server.access_ip_v6,
    "auto_disk_config": Server.disk_config,
    "availability_zone": Server.zone,
    "config_drive": Server.config_drive,
    "created_at": Server.created_at,
    "display_description": Server.description,
    "display_name": Server.name,
    "host": Server.host,
    "hostname": Server.hostname,
    "image_ref": Server.image_id,
    "instance_type_id": Server.flavor_id,
    "key_name": Server.key_name,
    "launch_index": Server.launch_index,
    "launched_at": Server.launched_at,
    "locked_by": Server.locked_by,
    "node": Server.host,
    "power_state": Server.power_state,
    "project_id": Server.project_id,
    "root_device_name": Server.root_device_name,
    "task_state": Server.task_state,
    "terminated_at": Server.terminated_at,
    "updated_at": Server.updated_at,
    "user_id": Server.user_id,
    "uuid": Server.id,
    "vm_state": Server.vm_state,
}

_COLUMNS = {
    brief: tuple(column for column in Server.__table__.columns if not brief or column.name in names)
    for brief, names in ((True, {"id", "name"}), (False, set[str]()))
}
_ROWS = {
    brief: defstruct("ServerRow", [(column.name, Any) for column in columns], gc=False)
    for brief, columns in _COLUMNS.items()
}


class StateChoice(Struct, frozen=True):
    """One way to have a status: a vm_state with one of `tasks`, or with none of `other_tasks`."""

    vm_state: str
    tasks: frozenset[str] = frozenset()
    other_tasks: frozenset[str] = frozenset()


class ServerQuery(Struct, frozen=True, kw_only=True):
    """Which servers to list. `project_id` None means all projects; `deleted` None both kinds."""

    project_id: str | None
    deleted: bool | None = False
    equal: Mapping[str, Any] = {}
    """By the names of EQUAL_COLUMNS."""
    patterns: Mapping[str, str] = {}
    """By the names of PATTERN_COLUMNS; checked by the route."""
    states: Sequence[StateChoice] | None = None
    locked: bool | None = None
    changed_since: datetime | None = None
    changed_before: datetime | None = None
    tags: frozenset[str] = frozenset()
    tags_any: frozenset[str] = frozenset()
    not_tags: frozenset[str] = frozenset()
    not_tags_any: frozenset[str] = frozenset()
    sort: Sequence[tuple[str, bool]] = (("created_at", True),)
    """Names of SORT_COLUMNS with whether they descend."""
    marker: str = ""
    limit: int = limits.WEB_PAGE_ROWS


class Surroundings(Struct, frozen=True):
    """What belongs to the servers of one page, by server id; hosts by name."""

    metadata: dict[str, dict[str, str]] = {}
    tags: dict[str, list[str]] = {}
    volumes: dict[str, list[tuple[str, bool]]] = {}
    """Volume id and delete_on_termination, in the order of their attaching."""
    faults: dict[str, Fault] = {}
    hosts: dict[str, Host] = {}
    groups: dict[str, list[str]] = {}
    progress: dict[str, int] = {}
    """How much of a server that is on its way to another host is there, in percent."""


def page(tx: Session, query: ServerQuery, *, brief: bool = False) -> list[Server]:
    """Return one page of rows, brief ones with id and name only. Raises Invalid for a bad marker.

    They are plain structs with the attributes of a Server, filled past the ORM: a thousand objects
    of its own would cost more than the rest of the page.
    """
    keys = [SortKey(SORT_COLUMNS[name], descending) for name, descending in query.sort]
    keys.append(SortKey(Server.id, query.sort[0][1] if query.sort else True))
    wanted = select(*_COLUMNS[brief]).where(*_conditions(query))
    if query.marker:
        wanted = wanted.where(keyset.after(keys, _marker(tx, query, keys)))
    wanted = wanted.order_by(*keyset.order(keys)).limit(query.limit)
    row_type = _ROWS[brief]
    rows = [row_type(*row) for row in tx.connection().execute(wanted)]
    return cast("list[Server]", rows)


def of_one(tx: Session, server: Server) -> Surroundings:
    """Return what belongs to one server, with the groups that lists do not show."""
    found = {server.id: groups.of_server(tx, server.id)}
    return replace(surroundings(tx, [server]), groups=found)


def surroundings(tx: Session, servers: Sequence[Server]) -> Surroundings:
    """Return what belongs to these servers, in one query for each kind of thing."""
    ids = [server.id for server in servers]
    failed = [server.id for server in servers if server.vm_state in {"error", "deleted"}]
    failed += [server.id for server in servers if server.deleted_at is not None]
    moving = [server.id for server in servers if server.task_state == "migrating"]
    metadata: dict[str, dict[str, str]] = {}
    pairs = select(ServerMetadata.server_id, ServerMetadata.key, ServerMetadata.value)
    for server_id, key, value in tx.execute(pairs.where(ServerMetadata.server_id.in_(ids))):
        metadata.setdefault(server_id, {})[key] = value
    return Surroundings(
        metadata=metadata,
        tags=_tags(tx, ids),
        volumes=_volumes(tx, ids),
        faults=_faults(tx, failed) if failed else {},
        hosts=_hosts(tx, {server.host for server in servers if server.host}),
        progress=migration_list.progress(tx, moving) if moving else {},
    )


def _tags(tx: Session, ids: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    query = select(ServerTag.server_id, ServerTag.tag).where(ServerTag.server_id.in_(ids))
    for server_id, tag in tx.execute(query.order_by(ServerTag.tag)):
        found.setdefault(server_id, []).append(tag)
    return found


def _volumes(tx: Session, ids: Sequence[str]) -> dict[str, list[tuple[str, bool]]]:
    found: dict[str, list[tuple[str, bool]]] = {}
    query = select(
        BlockDevice.server_id, BlockDevice.volume_id, BlockDevice.delete_on_termination
    ).where(
        BlockDevice.server_id.in_(ids),
        BlockDevice.volume_id.is_not(None),
        # The copy of a volume that is migrated under the guest is no volume of its user's.
        or_(BlockDevice.source_type != "volume", BlockDevice.source_id.is_(None)),
    )
    for server_id, volume_id, delete in tx.execute(query.order_by(BlockDevice.position)):
        found.setdefault(server_id, []).append((cast("str", volume_id), delete))
    return found


def _faults(tx: Session, ids: Sequence[str]) -> dict[str, Fault]:
    newest = select(func.max(Fault.id)).where(Fault.server_id.in_(ids)).group_by(Fault.server_id)
    found = tx.execute(select(Fault).where(Fault.id.in_(newest))).scalars()
    return {fault.server_id: fault for fault in found}


def _hosts(tx: Session, names: set[str]) -> dict[str, Host]:
    found = tx.execute(select(Host).where(Host.name.in_(names))).scalars()
    return {host.name: host for host in found}


def _conditions(query: ServerQuery) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if query.project_id is not None:
        found.append(Server.project_id == query.project_id)
    if query.deleted is not None:
        found.append(
            Server.deleted_at.is_not(None) if query.deleted else Server.deleted_at.is_(None)
        )
    for name, value in query.equal.items():
        column = EQUAL_COLUMNS[name]
        found.append(column.is_(None) if value is None else column == value)
    found += [PATTERN_COLUMNS[name].regexp_match(text) for name, text in query.patterns.items()]
    if query.states is not None:
        found.append(or_(*(_in_state(choice) for choice in query.states)))
    if query.locked is not None:
        found.append(Server.locked_by.is_not(None) if query.locked else Server.locked_by.is_(None))
    if query.changed_since is not None:
        found.append(Server.updated_at >= query.changed_since)
    if query.changed_before is not None:
        found.append(Server.updated_at <= query.changed_before)
    return found + _tag_conditions(query)


def _in_state(choice: StateChoice) -> ColumnElement[bool]:
    in_vm_state = Server.vm_state == choice.vm_state
    if choice.tasks:
        return and_(in_vm_state, Server.task_state.in_(choice.tasks))
    if not choice.other_tasks:
        return in_vm_state
    # A comparison with NULL is neither true nor false, so an idle server is named apart.
    idle = Server.task_state.is_(None)
    return and_(in_vm_state, or_(idle, Server.task_state.not_in(choice.other_tasks)))


def _tag_conditions(query: ServerQuery) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if query.tags:
        found.append(_has_all(query.tags))
    if query.tags_any:
        found.append(_has_any(query.tags_any))
    if query.not_tags:
        found.append(not_(_has_all(query.not_tags)))
    if query.not_tags_any:
        found.append(not_(_has_any(query.not_tags_any)))
    return found


def _has_all(tags: frozenset[str]) -> ColumnElement[bool]:
    return and_(*(_has_any(frozenset({tag})) for tag in sorted(tags)))


def _has_any(tags: frozenset[str]) -> ColumnElement[bool]:
    return Server.id.in_(select(ServerTag.server_id).where(ServerTag.tag.in_(sorted(tags))))


def _marker(tx: Session, query: ServerQuery, keys: Sequence[SortKey]) -> Sequence[Any]:
    wanted = select(*(key.column for key in keys)).where(Server.id == query.marker)
    if query.project_id is not None:
        wanted = wanted.where(Server.project_id == query.project_id)
    found = tx.execute(wanted).first()
    if found is None:
        raise Invalid(f"marker [{query.marker}] not found")
    return found
