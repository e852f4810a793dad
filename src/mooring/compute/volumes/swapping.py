"""Another volume in the place of one, under a running guest: who may ask, and when.

Source: specs 001, facts/compute.md 2.5 and 4.12. An administrator swaps a volume for another one.
The volume service swaps one that it migrates or retypes for its copy, as the two say themselves: it
keeps its id, and the volume service waits to be told of the end.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.clients import migrations
from mooring.compute.actions import actions
from mooring.compute.hosts import hosts
from mooring.compute.servers import servers, states
from mooring.compute.volumes import devices, disk_places, volume_attachments
from mooring.compute.volumes.sagas.swap_migrated import SWAP_MIGRATED
from mooring.compute.volumes.sagas.swap_notes import SwapVolume, keep_spare
from mooring.compute.volumes.sagas.swap_volume import SWAP_VOLUME
from mooring.errors import Conflict, Invalid, NotFound
from mooring.fence import table as fence

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.clients.volume import Volume
    from mooring.compute.service import Compute
    from mooring.compute.tables import BlockDevice, Server
    from mooring.compute.volumes.disk_places import Place
    from mooring.fence.operation import Operation
    from mooring.who import Who

ACTION = "swap_volume"
_SWAPPED = frozenset({"active", "paused"})
"""vm_states in which the guest's own emulator can copy. One that was resized has two places."""
_AT_REST = frozenset({None, "", "success", "error"})
"""What a migration leaves behind; such a volume is swapped as any other (facts/compute.md 4.12)."""
_USED, _MIGRATED = ("in-use",), ("in-use", "retyping")
_TRUE = "true"


async def swap(
    compute: Compute,
    who: Who,
    ids: tuple[str, str, str],
    operation: Operation | None = None,
) -> None:
    """Begin to swap; answers once the old volume is detaching and the new one reserved.

    `ids`: the server's, the old volume's, the new one's. Two calls of one operation are one.
    Raises NotFound, Conflict and Invalid as facts/compute.md 2.5 lists them.
    """
    server_id, old_id, new_id = ids
    await compute.store.read(lambda tx: _require(tx, who, server_id))
    old = await compute.volumes.show(who, old_id)
    new = await _show_new(compute, who, new_id)
    keeps_id = migrations.is_migrated_to(old, new)
    _check_volumes(old, new, keeps_id=keeps_id)
    there = await compute.volumes.attachments(who, volume_id=new.id)
    known = [found.id for found in there]
    resource = f"volumes/{old.id}/swaps/{new.id}"

    def begin(tx: Session) -> str:
        if (earlier := fence.admit(tx, operation, resource, verb="POST")) is not None:
            return earlier.body
        server = _require(tx, who, server_id)
        notes = replace(_plan(tx, compute, server, old, new), known=known, keeps_id=keeps_id)
        saga_id = _start(tx, compute, who, notes)
        fence.record(tx, operation, resource, fence.Answer(body=saga_id), [saga_id], verb="POST")
        return saga_id

    saga_id = await volume_attachments.submit(compute, ACTION, (server_id, old.id, new.id), begin)
    await servers.until_answered(compute, saga_id)


def _plan(tx: Session, compute: Compute, server: Server, old: Volume, new: Volume) -> SwapVolume:
    """Return the notes of a swap, once nothing speaks against it."""
    now, down_after_s = compute.clock.now(), compute.settings.host_down_s
    host = hosts.require_up(tx, server.host, now, down_after_s)
    row = _find_row(tx, server, old)
    _check_new(tx, compute, server, new)
    place = _require_here(tx, row, host.name)
    return SwapVolume(
        server_id=server.id,
        host=host.name,
        action_id=0,
        block_device_id=row.id,
        spare_id=str(uuid.uuid4()),
        volume_id=old.id,
        new_volume_id=new.id,
        attachment_id=place.attachment_id,
        device_name=row.device_name,
        boot_index=row.boot_index,
        new_size_gib=new.size_gib,
        new_type=new.volume_type,
        grows_to_gib=new.size_gib if new.size_gib > old.size_gib else 0,
    )


def _require_here(tx: Session, row: BlockDevice, host: str) -> Place:
    """Return where the server has a volume. Raises Conflict where another host has it as well."""
    place, others = disk_places.split(tx, row.id, host)
    left = [one.host for one in (place, *others) if one.host != host]
    if left:
        raise Conflict(
            f"Volume {row.volume_id} is still at host {', '.join(left)}, which server "
            f"{row.server_id} left: it was not swapped, and nothing was changed. Detach it, which "
            "ends that as well, or swap it once that host has let go of it."
        )
    return place


def _start(tx: Session, compute: Compute, who: Who, notes: SwapVolume) -> str:
    saga_id, now = str(uuid.uuid4()), compute.clock.now()
    keep_spare(tx, notes, now)
    action_id = actions.begin(tx, notes.server_id, ACTION, who, now, saga_id=saga_id)
    notes = replace(notes, action_id=action_id)
    saga = SWAP_MIGRATED if notes.keeps_id else SWAP_VOLUME
    return compute.sagas.start(tx, saga, notes, who=who, saga_id=saga_id)


def _require(tx: Session, who: Who, server_id: str) -> Server:
    server = servers.visible(tx, who, server_id)
    states.require(server, who, ACTION, _SWAPPED)
    return server


async def _show_new(compute: Compute, who: Who, new_id: str) -> Volume:
    """Return the new volume. It is named in the body, so a missing one is Invalid."""
    try:
        return await compute.volumes.show(who, new_id)
    except NotFound as error:
        raise Invalid(
            f"Invalid volume: volume {new_id} could not be found. Nothing was changed.",
            private=error.public,
        ) from error


def _check_volumes(old: Volume, new: Volume, *, keeps_id: bool) -> None:
    for volume in () if keeps_id else (old, new):
        moving = volume.migration_status not in _AT_REST
        if moving or volume.status == "retyping":
            what = f"is in migration_status {volume.migration_status}" if moving else "is retyping"
            raise Conflict(
                f"Volume {volume.id} {what}, and the other one is not what it is migrated to or "
                f"from: volume {old.id} was not swapped with {new.id}. Wait until that has ended."
            )
    if old.multiattach or new.multiattach:
        raise Invalid(
            f"Volume {old.id} was not swapped with {new.id}: volumes that several servers may have "
            "(multiattach) are not swapped. Nothing was changed."
        )
    if old.status not in (_MIGRATED if keeps_id else _USED):
        raise _invalid(f"volume {old.id} is {old.status}, not in-use")
    if new.status != "available":
        raise _invalid(f"volume {new.id} is {new.status}, not available")
    if new.size_gib < old.size_gib:
        raise _invalid(
            f"volume {new.id} has {new.size_gib} GiB and volume {old.id} {old.size_gib}; the new "
            "one must not be smaller"
        )
    if new.metadata.get("readonly", "").lower() == _TRUE:
        raise _invalid(f"volume {new.id} is read-only, so that nothing can be copied to it")


def _find_row(tx: Session, server: Server, old: Volume) -> BlockDevice:
    row = devices.find_volume(tx, server.id, old.id)
    if row is None:
        raise _invalid(f"volume {old.id} is not attached to server {server.id}")
    if row.state != "attached":
        raise _invalid(f"volume {old.id} is being attached or detached")
    return row


def _check_new(tx: Session, compute: Compute, server: Server, new: Volume) -> None:
    hosts.require_attachments(tx)
    if devices.of_volume(tx, new.id):
        raise _invalid(f"volume {new.id} is attached to a server")
    # The copy of a volume is no project's.
    if new.project_id not in {None, "", server.project_id}:
        raise _invalid(f"volume {new.id} is of another project than server {server.id}")
    volume_attachments.check_zone(compute, server, new)


def _invalid(why: str) -> Invalid:
    return Invalid(f"Invalid volume: {why}. Nothing was changed.")
