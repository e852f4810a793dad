"""Rebuild a server whose root disk is a volume: the volume gets the content of an image.

Specs 002 and 004, facts/compute.md 5.3 and 5.4. The volume stays reserved for the server by an
empty attachment while the volume service replaces its content; the saga rests until then. What
holds is the volume's status: the event `volume-reimaged` only wakes the saga.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.hosts import guests
from mooring.compute.rebuild.sagas import rebuild_steps as steps
from mooring.compute.rebuild.sagas.rebuild_notes import RebuildServer, to_connect
from mooring.compute.volumes import devices, disk_places, disks
from mooring.compute.volumes.disks import Disk
from mooring.errors import Conflict, Invalid, NotFound
from mooring.limits import COMPUTE_REIMAGE_WAIT_S
from mooring.saga import journal
from mooring.saga.define import Each, Park, Run, Saga, Step, Together
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.clients.volume import Volume
    from mooring.compute.service import Compute
    from mooring.fence.operation import Operation

OUTCOMES = ("failed", "completed")
"""What the event `volume-reimaged` may say."""
_DOWNLOADING, _RESERVED = "downloading", "reserved"


def signal_of(volume_id: str) -> str:
    """Return the name of the signal that the event `volume-reimaged` gives."""
    return f"volume-reimaged:{volume_id}"


def outcome_of(volume_id: str, word: str) -> str:
    """Return the name of the signal that tells, until it is taken, what the event said."""
    return f"volume-reimage-{word}:{volume_id}"


async def reserve_root(notes: RebuildServer, run: Run[Compute]) -> RebuildServer | None:
    """Make an empty attachment, so that the volume stays reserved for the server."""
    if not notes.frees:
        return None
    made = await disks.reserve(run, _empty_disk(notes), as_user=False)
    return replace(notes, attachment_id=made)


async def disconnect_root(notes: RebuildServer, run: Run[Compute]) -> None:
    """Remove the volume's device from the host."""
    if notes.frees:
        await guests.insist(run, disks.leave(run, _old_disk(notes)))


async def free_root(notes: RebuildServer, run: Run[Compute]) -> None:
    """Delete the old attachment: with the empty one alone the volume is reserved."""
    if notes.frees:
        await guests.insist(run, disks.end(run, _old_disk(notes)))


def save_root(tx: Session, notes: RebuildServer, run: Run[Compute]) -> None:
    """Note the empty attachment in the block device, in the transaction that ends `free_root`."""
    for word in OUTCOMES:
        journal.take_signal(tx, outcome_of(notes.volume_id, word))
    if notes.frees:
        device, made = notes.block_device_id, notes.attachment_id
        values = {"attachment_id": made, "state": "reserved"}
        disk_places.change(tx, device, notes.host, run.now(), **values)


async def start_reimage(notes: RebuildServer, run: Run[Compute]) -> RebuildServer:
    """Ask for the new content. A refusal means that nothing has changed."""
    asking = run.service.volumes.reimage(
        None, notes.volume_id, notes.image_id, reserved=True, operation=run.operation
    )
    try:
        await guests.insist(run, asking)
    except (Invalid, Conflict) as error:
        if is_unavailable(error) or not guests.may_be_repeated(run):
            raise
        if not await _has_begun(notes, run):
            raise
    return replace(notes, asked=True)


async def await_reimage(notes: RebuildServer, run: Run[Compute]) -> None:
    """Rest until the volume has the image, and see by its status that it has.

    Raises Conflict when it has not. One that is still being copied is waited for, also after the
    time that the image may take.
    """
    volume = await run.service.volumes.show(None, notes.volume_id)
    _rest_while_copying(notes, volume)
    is_told = notes.image_id != notes.old_image_id or await _find_outcome(notes, run)
    if not is_told and not notes.waited:
        # The image that it had already tells nothing, and the event may be on its way.
        raise _rest(replace(notes, waited=True))
    if volume.status != _RESERVED or not await _is_new(notes, run, volume):
        raise Conflict(
            f"Volume {volume.id} did not get image {notes.image_id}; it is {volume.status}. When "
            "the cause is mended, and an administrator has reset a volume in error to reserved "
            "where that is needed, rebuild the server again."
        )


# -- bad end -----------------------------------------------------------------------------------


async def settle_root(notes: RebuildServer, run: Run[Compute]) -> RebuildServer | Together:
    """See whether the root volume is as it was, once nothing changes it any more.

    When its old attachment is still there, the server has that one, and the empty one goes.
    """
    volumes = run.service.volumes
    if not notes.asked:
        await volumes.session.bury(_step_of(run, start_reimage.__name__))
    row = await run.service.store.read(lambda tx: devices.find(tx, notes.block_device_id))
    try:
        volume = await volumes.show(None, notes.volume_id)
    except NotFound:
        return notes
    is_saved = row is None or not notes.frees or row.attachment_id != notes.old_attachment_id
    if not is_saved and await _has_old(notes, run, volume):
        failure = await steps.give_up_late(run, _delete_empty(notes, run))
        return replace(notes, kept=True, broken=failure)
    _rest_while_copying(notes, volume)
    has_old = volume.status == _RESERVED and not await _is_new(notes, run, volume)
    settled = replace(notes, kept=has_old)
    if is_saved or not notes.attachment_id:
        return settled

    def save(tx: Session) -> None:
        save_root(tx, notes, run)

    return Together(save, settled)


async def _delete_empty(notes: RebuildServer, run: Run[Compute]) -> None:
    """Delete what `reserve_root` made, and see that it makes no more."""
    volumes = run.service.volumes
    made = await volumes.session.bury(_step_of(run, reserve_root.__name__))
    if made is None:
        made = await disks.find_own(run, _empty_disk(notes))
    for attachment_id in sorted({*made, notes.attachment_id} - {""}):
        operation = guests.other(run.operation, "delete")
        await volumes.delete_attachment(None, attachment_id, operation=operation)


async def _has_old(notes: RebuildServer, run: Run[Compute], volume: Volume) -> bool:
    if notes.old_attachment_id:
        return await steps.find_attachment(run, notes.old_attachment_id) is not None
    return any(found.server_id == notes.server_id for found in volume.attachments)


async def _is_new(notes: RebuildServer, run: Run[Compute], volume: Volume) -> bool:
    """Whether a volume at rest has its new content.

    When it had the same image before, only an event tells that the storage kept the old content.
    """
    image = _image_of(volume)
    if image != notes.image_id or image != notes.old_image_id:
        return image == notes.image_id
    return notes.asked and await _find_outcome(notes, run) != "failed"


async def _find_outcome(notes: RebuildServer, run: Run[Compute]) -> str:
    """Return what the event said, "" while there was none."""

    def find(tx: Session) -> str:
        for word in OUTCOMES:
            if journal.has_signal(tx, outcome_of(notes.volume_id, word)):
                return word
        return ""

    return await run.service.store.read(find)


async def _has_begun(notes: RebuildServer, run: Run[Compute]) -> bool:
    """Whether an earlier request that got no answer was heard by a service without operations."""
    try:
        volume = await run.service.volumes.show(None, notes.volume_id)
    except NotFound:
        return False
    is_new = _image_of(volume) == notes.image_id != notes.old_image_id
    return volume.status == _DOWNLOADING or is_new


def _rest_while_copying(notes: RebuildServer, volume: Volume) -> None:
    if volume.status == _DOWNLOADING:
        raise _rest(notes)


def _rest(notes: RebuildServer) -> Park:
    return Park(
        signal=signal_of(notes.volume_id),
        seconds=notes.wait_s,
        timeout_s=COMPUTE_REIMAGE_WAIT_S,
        notes=notes,
    )


def _image_of(volume: Volume) -> str:
    return volume.volume_image_metadata.get("image_id", "")


def _step_of(run: Run[Compute], step: str) -> Operation:
    return replace(run.operation, step=step)


def _old_disk(notes: RebuildServer) -> Disk:
    return _disk(notes, notes.old_attachment_id)


def _empty_disk(notes: RebuildServer) -> Disk:
    return _disk(notes, notes.attachment_id or None)


def _disk(notes: RebuildServer, attachment_id: str | None) -> Disk:
    return Disk(
        server_id=notes.server_id,
        volume_id=notes.volume_id,
        host=notes.host,
        attachment_id=attachment_id,
        boot_index=0,
        known=notes.known,
    )


REBUILD_SERVER = Saga(
    "compute.rebuild_server",
    RebuildServer,
    Step("begin_rebuild", steps.begin_rebuild, undo=steps.give_up),
    Step("look_at_guest", steps.look_at_guest),
    Step("switch_off", steps.switch_off, deadline_s=700.0),
    Step("destroy_guest", steps.destroy_guest),
    Step("reserve_root", reserve_root),
    Step("disconnect_root", disconnect_root),
    Step("free_root", free_root),
    Step("save_root", save_root),
    Step("start_reimage", start_reimage),
    Step("await_reimage", await_reimage),
    Step("begin_mapping", steps.begin_mapping),
    Each("reserved", to_connect, Step("connect_volume", steps.connect_volume)),
    Step("begin_spawning", steps.begin_spawning),
    Step("spawn_guest", steps.spawn_guest, deadline_s=900.0),
    Each("connected", to_connect, Step("complete_volume", steps.complete_volume)),
    Step("record_rebuilt", steps.record_rebuilt),
    locks=steps.locks_of,
    pivot="switch_off",
    failed_end=(
        Step("settle_root", settle_root),
        Step("connect_again", steps.connect_again),
        Step("return_guest", steps.return_guest),
        Step("complete_again", steps.complete_again),
        Step("end_badly", steps.end_badly),
    ),
    residue=("faults", "instance_actions"),
)
