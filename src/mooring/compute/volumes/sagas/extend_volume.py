"""Grow a volume under its guest, and tell the volume service how it went (specs 000).

The volume service asks by the event `volume-extended`. While the volume is `extending`, only the
hypervisor of the guest can grow its file, and the volume waits for the completion action. In any
other status the file has its size already, and the guest is told of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from msgspec.structs import replace

from mooring.agent_api.disks import STORAGE_AWAY, DiskSize
from mooring.compute.actions.story import Told, tell
from mooring.compute.hosts import guests
from mooring.compute.volumes import devices
from mooring.compute.volumes.sagas import extend_again, extend_asked
from mooring.compute.volumes.sagas.extend_notes import GIB, ExtendVolume, find_device, read_target
from mooring.errors import Conflict, MooringError, NotFound, Unavailable
from mooring.saga.define import Run, Saga, Step, Together, exclusive, shared
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.agent_api.client import AgentClient
    from mooring.compute.service import Compute

log = structlog.get_logger()

EVENT = "compute_extend_volume"
EXTENDING = "extending"


def begin(tx: Session, notes: ExtendVolume, run: Run[Compute]) -> None:
    """Have it in hand. Never fails: the sender is answered by the completion, also by its undo."""
    del tx, notes, run


async def answer_failure(notes: ExtendVolume, run: Run[Compute]) -> Together:
    """Tell the volume service, until it has taken or refused it.

    A file cannot shrink: one that has grown all the same is told as grown. One who refuses to hear
    of it goes by the file at its deadline, and waits for the end of this saga before it looks.
    Whom another operation sent away is not refused: it is done after that one.
    """
    if run.pre_empted and await run.service.store.write(lambda tx: _renew(tx, notes, run)):
        return Together(lambda tx: _save_growth(tx, notes, run))
    if await extend_asked.may_answer(notes, run):
        try:
            await _complete_failure(notes, run)
        except MooringError as error:
            if is_unavailable(error):
                raise
            log.warning("nobody hears of an extend", volume=notes.volume_id, reason=str(error))
    return Together(lambda tx: _save_growth(tx, notes, run))


async def look_at_volume(notes: ExtendVolume, run: Run[Compute]) -> ExtendVolume:
    """See that the server has the volume on a host that is new enough, and read the new size."""
    found = await run.service.store.read(lambda tx: find_device(tx, notes))
    volume = await run.service.volumes.show(None, notes.volume_id)
    is_extending = notes.answers and volume.status == EXTENDING
    target = read_target(volume) if is_extending else volume.size_gib
    return replace(found, extending=is_extending, target_gib=target)


async def resize_disk(notes: ExtendVolume, run: Run[Compute]) -> ExtendVolume:
    """Have the host grow the disk, and compare what guest and image have then."""
    if await guests.is_lost(run, notes.host):
        raise Conflict(
            f"Host {notes.host} was forced down. Volume {notes.volume_id} was not extended."
        )
    wanted = notes.target_gib * GIB
    found = await guests.ask(
        run,
        notes.host,
        lambda agent: agent.resize_disk(
            notes.server_id, notes.volume_id, wanted, operation=run.operation
        ),
    )
    if min(found.guest_bytes, found.image_bytes) < wanted:
        raise Conflict(
            f"Volume {notes.volume_id} was to have {wanted} bytes; its guest sees "
            f"{found.guest_bytes} and its image has {found.image_bytes}."
        )
    return replace(notes, image_bytes=found.image_bytes)


async def forget_resize(notes: ExtendVolume, run: Run[Compute]) -> ExtendVolume:
    """See that the host leaves the disk alone from now on, and read what became of it.

    A size that the host cannot tell is unknown, and no reason to keep the server until it can. No
    disk shrinks, so what an earlier look saw still holds.
    """
    found = DiskSize(guest_bytes=0, image_bytes=0)

    async def verb(agent: AgentClient) -> None:
        nonlocal found
        try:
            await agent.forget_resize(notes.server_id, notes.volume_id, operation=run.operation)
        except NotFound:
            return
        found = await _look_at_disk(agent, notes)

    path = f"/servers/{notes.server_id}/disks/{notes.volume_id}/size"
    await guests.take_back(run, notes.host, path, verb)
    guest = max(notes.guest_bytes, found.guest_bytes)
    return replace(notes, guest_bytes=guest, image_bytes=max(notes.image_bytes, found.image_bytes))


async def _look_at_disk(agent: AgentClient, notes: ExtendVolume) -> DiskSize:
    """Return how big the disk is, 0 for one that is not there or whose storage is away."""
    try:
        return await agent.show_disk_size(notes.server_id, notes.volume_id)
    except NotFound:
        return DiskSize(guest_bytes=0, image_bytes=0)
    except Unavailable as error:
        if not error.detail.get(STORAGE_AWAY):
            raise
        return DiskSize(guest_bytes=0, image_bytes=0)


async def complete_extend(notes: ExtendVolume, run: Run[Compute]) -> None:
    """Tell the volume service that the volume has grown, if it waits for that."""
    if notes.owes_answer:
        await _complete(notes, run, error=False)


def record_extended(tx: Session, notes: ExtendVolume, run: Run[Compute]) -> None:
    """Note the size that the disk has now."""
    _save_size(tx, notes, run)


def record_refusal(tx: Session, notes: ExtendVolume, run: Run[Compute]) -> None:
    """Note the size that the disk has: only the volume service would not hear of it."""
    _save_size(tx, notes, run)


def begin_anew(tx: Session, notes: ExtendVolume, run: Run[Compute]) -> ExtendVolume:
    """Have the disk grow after all, once the operation that took this one's place has ended."""
    return replace(notes, is_renewed=_renew(tx, notes, run))


async def tell_failure(notes: ExtendVolume, run: Run[Compute]) -> None:
    """Tell the volume service, which waits for it, that nobody grows its file any more.

    By then the server is another operation's. A file that has grown all the same is told as grown.
    """
    if not notes.is_renewed and await extend_asked.may_answer(notes, run):
        await _complete_failure(notes, run)


async def _complete_failure(notes: ExtendVolume, run: Run[Compute]) -> None:
    if not notes.has_grown and run.attempt == 1:
        why = str(run.error or "another operation has its server")
        log.error("volume did not grow", volume=notes.volume_id, server=notes.server_id, why=why)
    await _complete(notes, run, error=not notes.has_grown)


async def _complete(notes: ExtendVolume, run: Run[Compute], *, error: bool) -> None:
    taken = await run.service.volumes.complete_extend(
        None, notes.volume_id, error=error, operation=run.operation
    )
    if not taken:
        log.info("extend was finished by somebody else", volume=notes.volume_id, error=error)


def _renew(tx: Session, notes: ExtendVolume, run: Run[Compute]) -> bool:
    return extend_again.start(tx, EXTEND_VOLUME, notes, run)


def _save_growth(tx: Session, notes: ExtendVolume, run: Run[Compute]) -> None:
    if notes.has_grown:
        _save_size(tx, notes, run)


def _save_size(tx: Session, notes: ExtendVolume, run: Run[Compute]) -> None:
    devices.change(tx, notes.block_device_id, run.now(), volume_size_gib=notes.target_gib)


EXTEND_VOLUME = Saga(
    "compute.extend_volume",
    ExtendVolume,
    Step("open_event", begin, undo=answer_failure),
    Step("look_at_volume", look_at_volume),
    Step("resize_disk", resize_disk, undo=forget_resize),
    Step("complete_extend", complete_extend),
    Step("record_extended", record_extended),
    locks=lambda notes: [
        shared(f"server:{notes.server_id}"),
        exclusive(f"volume:{notes.volume_id}"),
    ],
    mode="wait",
    # A client may see the new size while `complete_extend` still waits for its answer.
    visible_after="resize_disk",
    # Nobody who has the server asked for it, and the file says how it ended.
    gives_way=True,
    pivot="complete_extend",
    failed_end=(Step("record_refusal", record_refusal),),
    owes=(
        Step("begin_anew", begin_anew),
        Step("tell_failure", tell_failure, may_be_forgone=True),
    ),
    # No file shrinks: what has grown before a failure stays so, and is told as grown.
    residue=("faults", "instance_actions", "block_devices", "disk_sizes", "storage"),
    story=tell(lambda notes: Told(event=EVENT, host=notes.host, came_true=notes.came_true)),
)
