"""Put a server away whose root disk lies on its host: the disk becomes an image (specs 001).

The guest is switched off first, so that the image is what it had written. Whatever fails then
leaves the server as its guest is, stopped, with its disk and without an image. Once the image is
whole the server is SHELVED, and the same transaction begins to take it from its host where it is
not to wait there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from msgspec.structs import replace

from mooring.compute.actions.story import Told, tell
from mooring.compute.images.sagas import server_image
from mooring.compute.power.sagas import power
from mooring.compute.servers import states
from mooring.compute.shelve.sagas import shelved_image
from mooring.compute.shelve.sagas.offload_server import OFFLOAD_SERVER, locks_of, power_off
from mooring.compute.shelve.sagas.shelve_notes import ShelveServer, to_offload
from mooring.saga.define import Run, Saga, Step
from mooring.saga.held import HeldError
from mooring.who import Who

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute

log = structlog.get_logger()
_CREATE = "create_record"


async def create_record(notes: ShelveServer, run: Run[Compute]) -> None:
    """Make the image, as the user who asked: it is theirs, and counts against their quota."""
    new = server_image.describe(
        notes.image_id,
        notes.name,
        notes.properties,
        min_disk_gib=notes.min_disk_gib,
        min_ram_mib=0,
    )
    await server_image.create_record(new, run)


def begin_capture(tx: Session, notes: ShelveServer, run: Run[Compute]) -> None:
    """Say that the guest is off, and that its disk is being copied."""
    now, task_state = run.now(), "shelving_image_pending_upload"
    states.change(tx, notes.server_id, now, task_state=task_state, power_state=states.SHUTDOWN)


def begin_upload(tx: Session, notes: ShelveServer, run: Run[Compute]) -> None:
    """Say that the copy is on its way."""
    states.move(tx, notes.server_id, "shelving_image_uploading", run.now())


async def delete_former(notes: ShelveServer, run: Run[Compute]) -> None:
    """Delete an image that was left of an earlier time: the guest has gone on since."""
    if notes.former_image:
        await shelved_image.delete(run, notes.former_image)


def record_shelved(tx: Session, notes: ShelveServer, run: Run[Compute]) -> None:
    """Say that the server is put away, by which image, and since when."""
    now = run.now()
    kept = {"shelved_image_id": notes.image_id, "shelved_at": now}
    states.settle(tx, notes.server_id, states.SHELVED, states.SHUTDOWN, now, **kept)


async def give_up_image(notes: ShelveServer, run: Run[Compute]) -> None:
    """Remove the image: whoever took the server over has its disk with the guest."""
    await run.service.images.session.bury(run.operation.of_step(_CREATE))
    await shelved_image.delete(run, notes.image_id)


def _describe(notes: ShelveServer) -> Told:
    return Told(
        event="compute_shelve_instance", host=notes.host, notice="shelve", says_errors=False
    )


def _end(tx: Session, notes: ShelveServer, run: Run[Compute]) -> None:
    """Tell of the end, and go on where the server is not to stay at its host.

    An operation on one of its volumes may be in the way: then whoever looks after servers that are
    due takes it from there later.
    """
    _STORY.ended(tx, notes, run)
    if not notes.offloads:
        return
    who = Who(user_id=notes.user_id, project_id=run.project_id, request_id=run.request_id)
    try:
        run.service.sagas.start(
            tx, OFFLOAD_SERVER, to_offload(notes), who=who, parent_id=run.saga_id
        )
    except HeldError as error:
        log.info("a shelved server stays for now", server=notes.server_id, reason=error.public)


def _say_how(notes: ShelveServer, run: Run[Compute]) -> str:
    """Return how a server is that was not put away: where it was, with its disk."""
    del notes, run
    return "The server was not put away, and is as its guest is, with its disk. Shelve it again."


_STORY = tell(_describe, state=_say_how)
SHELVE_SERVER = Saga(
    "compute.shelve_server",
    ShelveServer,
    Step("begin_change", power.begin_change, undo=power.give_up),
    Step(_CREATE, create_record, undo=server_image.delete_record),
    Step("power_off", power_off, undo=power.look_at_guest, deadline_s=700.0),
    Step("begin_capture", begin_capture),
    Step("capture_disk", server_image.capture, undo=server_image.remove_capture, deadline_s=7500.0),
    Step("begin_upload", begin_upload),
    Step("upload_image", server_image.upload, deadline_s=7500.0),
    Step("remove_capture", server_image.remove_capture),
    Step("delete_former", delete_former, may_be_forgone=True),
    Step("record_shelved", record_shelved),
    locks=locks_of,
    answered_after=_CREATE,
    pivot="remove_capture",
    owes=(
        Step("give_up_image", give_up_image, may_be_forgone=True),
        server_image.GIVE_UP_CAPTURE,
    ),
    residue=("faults", "instance_actions", "former_images"),
    story=replace(_STORY, ended=_end),
)
