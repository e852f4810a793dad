"""What may be changed about a server without its guest noticing: names, texts, metadata, tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import UNSET, Struct, UnsetType
from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from mooring import limits
from mooring.compute.quotas import quota
from mooring.compute.servers import metadata, servers, states
from mooring.compute.tables import Host, Server, ServerMetadata, ServerTag
from mooring.errors import Conflict, Invalid, NotFound
from mooring.who import Who


class ServerChanges(Struct, frozen=True, kw_only=True):
    """New values of a server's columns; what is UNSET stays."""

    name: str | UnsetType = UNSET
    description: str | UnsetType | None = UNSET
    hostname: str | UnsetType = UNSET
    disk_config: str | UnsetType = UNSET
    access_ip_v4: str | UnsetType = UNSET
    access_ip_v6: str | UnsetType = UNSET
    pinned_zone: str | UnsetType | None = UNSET


def update(tx: Session, who: Who, server_id: str, changes: ServerChanges, now: datetime) -> None:
    """Change a server's columns. Raises NotFound, Invalid for a zone that does not fit."""
    server = servers.visible(tx, who, server_id)
    values = {
        name: getattr(changes, name)
        for name in ServerChanges.__struct_fields__
        if getattr(changes, name) is not UNSET
    }
    if values.get("pinned_zone") is not None:
        _check_zone(tx, server, values["pinned_zone"])
    if values:
        states.change(tx, server.id, now, **values)


def _check_zone(tx: Session, server: Server, zone: str) -> None:
    known = tx.execute(select(Host.zone).where(Host.zone == zone)).first()
    if known is None:
        raise Invalid(f"The requested availability zone {zone} is not available.")
    if server.host is not None and server.zone != zone:
        raise Invalid(
            f"Server {server.id} is in availability zone {server.zone} and cannot be pinned to "
            f"{zone}. Nothing was changed."
        )


def change_metadata(
    tx: Session,
    who: Who,
    server_id: str,
    items: Mapping[str, str],
    *,
    now: datetime,
    replace: bool = False,
) -> dict[str, str]:
    """Add or replace items, or all of them; return what there is now.

    Raises NotFound, Conflict when the server is locked or busy, OverQuota.
    """
    server = _changeable(tx, who, server_id, "update metadata")
    states.require_unlocked(server, who)
    before = {} if replace else metadata.read(tx, server_id)
    after = {**before, **items}
    quota.check_metadata(tx, server.project_id, len(after))
    kept = after if replace else items
    gone = delete(ServerMetadata).where(ServerMetadata.server_id == server_id)
    tx.execute(gone if replace else gone.where(ServerMetadata.key.in_(list(kept))))
    if kept:
        rows = [{"server_id": server_id, "key": key, "value": kept[key]} for key in kept]
        tx.execute(insert(ServerMetadata), rows)
    states.change(tx, server_id, now)
    return after


def delete_metadata(tx: Session, who: Who, server_id: str, key: str, now: datetime) -> None:
    """Remove one item. Raises NotFound, Conflict when the server is locked or busy."""
    states.require_unlocked(_changeable(tx, who, server_id, "delete metadata"), who)
    if key not in metadata.read(tx, server_id):
        raise NotFound("Metadata item was not found")
    tx.execute(
        delete(ServerMetadata).where(
            ServerMetadata.server_id == server_id, ServerMetadata.key == key
        )
    )
    states.change(tx, server_id, now)


def read_tags(tx: Session, server_id: str) -> list[str]:
    """Return the tags of a server that was just found visible."""
    query = select(ServerTag.tag).where(ServerTag.server_id == server_id)
    return list(tx.execute(query.order_by(ServerTag.tag)).scalars())


def replace_tags(
    tx: Session, who: Who, server_id: str, tags: Sequence[str], now: datetime
) -> list[str]:
    """Give a server these tags and no others. Raises NotFound, Conflict."""
    _changeable(tx, who, server_id, "update tags")
    tx.execute(delete(ServerTag).where(ServerTag.server_id == server_id))
    wanted = sorted(set(tags))
    if wanted:
        tx.execute(insert(ServerTag), [{"server_id": server_id, "tag": tag} for tag in wanted])
    states.change(tx, server_id, now)
    return wanted


def add_tag(tx: Session, who: Who, server_id: str, tag: str, now: datetime) -> bool:
    """Give a server one more tag; False when it has it. Raises NotFound, Conflict, Invalid."""
    _changeable(tx, who, server_id, "update tags")
    present = read_tags(tx, server_id)
    if tag in present:
        return False
    if len(present) >= limits.COMPUTE_TAGS:
        raise Invalid(f"The number of tags exceeded the per-server limit {limits.COMPUTE_TAGS}.")
    tx.add(ServerTag(server_id=server_id, tag=tag))
    states.change(tx, server_id, now)
    return True


def delete_tag(tx: Session, who: Who, server_id: str, tag: str, now: datetime) -> None:
    """Remove one tag. Raises NotFound, Conflict."""
    _changeable(tx, who, server_id, "delete tags")
    if tag not in read_tags(tx, server_id):
        raise NotFound(f"Server {server_id} has no tag '{tag}'")
    tx.execute(delete(ServerTag).where(ServerTag.server_id == server_id, ServerTag.tag == tag))
    states.change(tx, server_id, now)


_CHANGEABLE = frozenset({"active", "paused", "suspended", "stopped"})


def _changeable(tx: Session, who: Who, server_id: str, action: str) -> Server:
    server = servers.visible(tx, who, server_id)
    if server.vm_state not in _CHANGEABLE:
        raise states.refusal(server_id, action, "vm_state", server.vm_state)
    if server.task_state == "deleting":
        raise Conflict(f"Server {server_id} is being deleted. Nothing was changed.")
    return server
