"""Connection data: what a host needs to reach a volume. It rests sealed and is shown flat.

Source: facts/block_storage.md 2.3 and 10.2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import delete, or_, select

from mooring import typed
from mooring.errors import Invalid
from mooring.row_limits import VOLUME_CONNECTOR_BYTES
from mooring.volume.tables import AttachmentRow, ExportRow

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.saga.seal import Sealer

_DEFAULTS = {"encrypted": False, "qos_specs": None, "cacheable": False}


def check_connector(connector: Mapping[str, Any]) -> str:
    """Return the name of the connector's host. Raises Invalid for none, or a very long one."""
    host = connector.get("host")
    if not isinstance(host, str) or not host:
        raise Invalid(
            "Invalid input received: The connector names no host. Nothing was changed; send the "
            "connector of the host that will use the volume.",
        )
    size = len(msgspec.json.encode(dict(connector)))
    if size > VOLUME_CONNECTOR_BYTES:
        raise Invalid(
            f"Invalid input received: The connector has {size} bytes, and may have "
            f"{VOLUME_CONNECTOR_BYTES}. Nothing was changed; send what os-brick tells.",
        )
    return host


def digest(connector: Mapping[str, Any]) -> str:
    """Return what tells one connector from another."""
    text = msgspec.json.encode(dict(connector), order="deterministic")
    return hashlib.sha256(text).hexdigest()


def seal(sealer: Sealer, connection: Mapping[str, Any]) -> bytes:
    """Return connection data as it may rest in the database."""
    return sealer.seal(msgspec.json.encode(dict(connection)))


def open_nested(sealer: Sealer, sealed: bytes) -> dict[str, Any]:
    """Return `{driver_volume_type, data}`, the form that drivers and the legacy calls use."""
    return typed.decode(sealer.open(sealed), dict[str, Any])


def open_flat(sealer: Sealer, row: AttachmentRow) -> dict[str, Any]:
    """Return an attachment's `connection_info` as the attachments API shows it, {} when none."""
    if row.connection is None:
        return {}
    nested = open_nested(sealer, row.connection)
    data: dict[str, Any] = nested.pop("data", {})
    ours = {
        "access_mode": row.attach_mode or "rw",
        "enforce_multipath": bool((row.connector or {}).get("enforce_multipath", False)),
        "attachment_id": row.id,
        "volume_id": row.volume_id,
    }
    return {**_DEFAULTS, **data, **nested, **ours}


def dress(nested: Mapping[str, Any], *, mode: str, connector: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `connection_info` of the legacy calls, with the keys that all drivers share."""
    data = {**_DEFAULTS, **nested.get("data", {}), "access_mode": mode}
    multipath = bool(connector.get("enforce_multipath", False))
    return {**nested, "data": data, "enforce_multipath": multipath}


def find_exports(tx: Session, volume_id: str) -> list[str]:
    """Return the ids under which a volume is exported, or may be."""
    attachments = select(AttachmentRow.id).where(
        AttachmentRow.volume_id == volume_id,
        or_(AttachmentRow.digest != "", AttachmentRow.connection.is_not(None)),
    )
    legacy = select(ExportRow.id).where(ExportRow.volume_id == volume_id)
    return sorted({*tx.execute(attachments).scalars(), *tx.execute(legacy).scalars()})


def forget_all(tx: Session, volume_id: str, known: Sequence[str]) -> list[str]:
    """Forget a volume's attachments; return under which ids it is exported, `known` ones included.

    Since those were known, a migration may have given it others.
    """
    found = find_exports(tx, volume_id)
    tx.execute(delete(AttachmentRow).where(AttachmentRow.volume_id == volume_id))
    return sorted({*known, *found})
