"""Grow a volume after all, when another operation took the place of the saga that was at it.

What was accepted is finished: a stop or a hard reboot ends a guest that hangs, and with it a resize
that nobody could take back; after it the host makes the file grow. Only where the server goes, too,
is nobody left to do it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID, uuid5

from msgspec.structs import replace

from mooring.compute.actions import actions
from mooring.compute.tables import Server
from mooring.fence import table as fence
from mooring.saga import journal

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.compute.volumes.sagas.extend_notes import ExtendVolume
    from mooring.saga.define import Run, Saga

ACTION = "extend_volume"


def start(tx: Session, saga: Saga[ExtendVolume], notes: ExtendVolume, run: Run[Compute]) -> bool:
    """Queue the same growth behind whoever has the server or waits for it; return whether it is.

    It is filed under the event that asked for it, so that whoever takes the event back ends it too.
    False when nobody waits for the growth any more, the file has grown, or the server is to go.
    """
    server, who = tx.get(Server, notes.server_id), run.user
    if server is None or server.deleted_at is not None or server.task_state == "deleting":
        return False
    if who is None or server.host is None or notes.has_grown or not notes.owes_answer:
        return False
    again_id = str(uuid5(UUID(run.saga_id), "again"))
    if journal.load(tx, again_id) is not None:
        return True
    resource = f"external-events/{run.saga_id}"
    if notes.event and not fence.add_made(tx, notes.event, resource, [again_id]):
        return False
    action_id = actions.begin(tx, notes.server_id, ACTION, who, run.now(), saga_id=again_id)
    begun = replace(
        notes,
        host=server.host,
        action_id=action_id,
        block_device_id="",
        extending=None,
        target_gib=0,
        image_bytes=0,
    )
    run.service.sagas.start(tx, saga, begun, who=who, saga_id=again_id)
    return True
