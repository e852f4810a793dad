"""What is known of a move by its server and its record, when it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from mooring.compute.groups import affinity
from mooring.compute.moves.sagas.move_notes import Evacuate, LiveMigrate

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.tables import Migration, Server

M = TypeVar("M", LiveMigrate, Evacuate)


def describe(kind: type[M], tx: Session, server: Server, row: Migration, action_id: int) -> M:
    """Return the notes of a move that is the instance action `action_id`."""
    return kind(
        server_id=server.id,
        action_id=action_id,
        migration_id=row.id,
        migration_uuid=row.uuid,
        project_id=server.project_id,
        user_id=server.user_id,
        vm_state=server.vm_state,
        source=row.source,
        group_id=affinity.group_of(tx, server.id),
        is_local=bool(server.image_id),
    )
