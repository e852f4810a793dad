"""A volume of a server at one host: each way to give it and to take it back, for all sagas.

    give / take      the volume in the guest: exported, connected and plugged in, and all that back
    export / leave   the volume at a host whose guest does not run
    complete, end    say that the guest has it; end the export

The empty attachment that keeps a volume for a server is in `reservations`. Connection data is the
answer of an export, handed on at once and kept nowhere (specs 001).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mooring.agent_api.disks import RELEASED, DiskBus, DiskSpec
from mooring.agent_api.verbs import UNPLUG_DISK
from mooring.compute.hosts import guests
from mooring.compute.volumes import buses, devices, old_calls, reservations
from mooring.errors import Conflict, MooringError, NotFound, told_also
from mooring.limits import COMPUTE_UNDO_ATTEMPTS, COMPUTE_VOLUME_POLL_S
from mooring.saga import journal
from mooring.saga.define import Park
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from mooring.agent_api.client import AgentClient
    from mooring.compute.service import Compute
    from mooring.compute.tables import BlockDevice
    from mooring.fence.operation import Operation
    from mooring.saga.define import Run

_WHY = "openstack --os-volume-api-version 3.67 volume message list says why."
_NOT_READY = frozenset({"creating", "downloading"})


class Disk(Struct, frozen=True, kw_only=True):
    """A volume of a server at a host. With no attachment, None or "", it came by the old calls.

    `known`: attachments that the volume had before, never to be deleted as an operation's own.
    `old_calls`: it is to be given by the old calls; `reserved`: by those it is kept.
    `has_data`: whether the volume was seen with its data before it was reserved for the server.
    """

    server_id: str
    volume_id: str
    host: str | None
    attachment_id: str | None = None
    device_name: str | None = None
    boot_index: int | None = None
    multiattach: bool = False
    known: list[str] = []
    has_data: bool = False
    old_calls: bool = False
    reserved: bool = False
    bus: DiskBus = "virtio"

    @property
    def connection_id(self) -> str:
        """What its connection is called on the host."""
        return self.attachment_id or self.volume_id


def in_notes(notes: Struct) -> Disk:
    """Return the disk of a saga whose notes have its members, under the same names."""
    members = (name for name in Disk.__struct_fields__ if hasattr(notes, name))
    disk = Disk(**{name: getattr(notes, name) for name in members})
    return old_calls.read(disk) if disk.old_calls else disk


class Steps:
    """What sagas list of a disk, found in their notes: `find(notes)`, in an Each with the item.

    `insists`: a host or volume service that is silent for long counts as one that refuses.
    """

    def __init__(self, find: Callable[..., Disk], *, insists: bool = False) -> None:
        self._find, self._insists = find, insists

    async def free(self, notes: Struct, *where: Any) -> None:
        """End every attachment that `reserve` made."""
        await reservations.free(where[-1], self._find(notes, *where[:-1]))

    async def take(self, notes: Struct, *where: Any) -> None:
        """Take the disk from the guest and its host."""
        await take(where[-1], self._find(notes, *where[:-1]))

    async def give_again(self, notes: Struct, *where: Any) -> None:
        """See that the guest has the disk, as before, unless it is known to have let it go."""
        await give_again(where[-1], self._find(notes, *where[:-1]))

    async def unplug(self, notes: Struct, *where: Any) -> None:
        """Take the disk from the guest alone."""
        await unplug(where[-1], self._find(notes, *where[:-1]))

    async def leave(self, notes: Struct, *where: Any) -> None:
        """Disconnect the volume from the host."""
        await self._await(where[-1], leave(where[-1], self._find(notes, *where[:-1])))

    async def complete(self, notes: Struct, *where: Any) -> None:
        """Tell the volume service that the guest has the volume."""
        await complete(where[-1], self._find(notes, *where[:-1]))

    async def uncomplete(self, notes: Struct, *where: Any) -> None:
        """See that what told so comes to nothing; the attachment goes with its reservation."""
        await old_calls.refuse_late(where[-1], self._find(notes, *where[:-1]))

    async def hold(self, notes: Struct, *where: Any) -> None:
        """Say that the volume is in use: its host or its attachment would not let it go."""
        await hold(where[-1], self._find(notes, *where[:-1]))

    async def end(self, notes: Struct, *where: Any) -> None:
        """End the export to the host; the last one frees the volume."""
        await self._await(where[-1], end(where[-1], self._find(notes, *where[:-1])))

    async def _await(self, run: Run[Compute], work: Awaitable[None]) -> None:
        await (guests.insist(run, work) if self._insists else work)


def disk_of(row: BlockDevice, host: str | None) -> Disk:
    """Return the disk that a block device with a volume stands for, at its server's host."""
    return Disk(
        server_id=row.server_id,
        volume_id=row.volume_id or "",
        host=host,
        attachment_id=row.attachment_id,
        device_name=row.device_name,
        boot_index=row.boot_index,
        multiattach=row.multiattach,
        bus=buses.of_row(row),
    )


def attached(rows: Sequence[BlockDevice]) -> list[BlockDevice]:
    """Return the volumes among block devices that the guest has, or is to have."""
    return [row for row in rows if row.volume_id and row.state == "attached"]


# -- give, take --------------------------------------------------------------------------------


async def give(run: Run[Compute], disk: Disk) -> str:
    """Export a volume that has its data to the host, and plug it into the guest; return its name.

    The export's own answer is what the host connects by. Raises Park while the data is not there.
    """
    spec = describe(disk, await export(run, disk))
    return await _plug(run, disk, spec, run.operation)


async def take(run: Run[Compute], disk: Disk) -> None:
    """Take a volume from the guest and disconnect it from the host; nothing when it has none.

    Raises Conflict when the guest keeps it; an error with the detail `RELEASED` when only the host
    does.
    """
    await old_calls.refuse_late(run, disk)

    async def verb(agent: AgentClient) -> None:
        try:
            await agent.unplug_disk(
                disk.server_id, disk.volume_id, disk.connection_id, operation=run.operation
            )
        except NotFound:
            # The guest is gone; what it had may be connected all the same.
            try:
                await agent.disconnect(disk.connection_id, operation=run.operation)
            except MooringError as error:
                raise told_also(error, **{RELEASED: True}) from error

    path = UNPLUG_DISK.target(disk.server_id, disk.volume_id, attachment_id=disk.connection_id)
    await guests.take_back(run, disk.host, path, verb)


async def unplug(run: Run[Compute], disk: Disk) -> None:
    """Take a volume from the guest alone and see that it let go; nothing when it has none.

    Raises Conflict when the guest keeps it.
    """

    async def verb(agent: AgentClient) -> None:
        try:
            await agent.unplug_disk(disk.server_id, disk.volume_id, operation=run.operation)
        except NotFound:
            return

    path = UNPLUG_DISK.target(disk.server_id, disk.volume_id)
    await guests.take_back(run, disk.host, path, verb)


async def give_again(run: Run[Compute], disk: Disk) -> None:
    """See that a guest which was to lose a volume has it; nothing when host or guest is gone.

    Raises Conflict when the host said that the guest has let go, and that the host has not.
    """
    if run.error is not None and run.error.detail.get(RELEASED):
        raise Conflict(
            f"The guest of server {disk.server_id} let volume {disk.volume_id} go, and its host "
            "did not. The clean-up goes on."
        )
    if disk.host is None or await guests.is_lost(run, disk.host):
        return
    try:
        await _plug(run, disk, await specify(run, disk), run.operation.again())
    except NotFound:
        return


async def _plug(run: Run[Compute], disk: Disk, spec: DiskSpec, operation: Operation) -> str:
    async def verb(agent: AgentClient) -> str:
        given = await agent.plug_disk(disk.server_id, spec, operation=operation)
        return given.device

    return await guests.ask(run, disk.host or "", verb)


# -- export, leave -----------------------------------------------------------------------------


async def export(
    run: Run[Compute], disk: Disk, operation: Operation | None = None
) -> Mapping[str, Any]:
    """Have a volume that has its data exported to the host; return how to connect it.

    A step that exports several does so under an `operation` for each. Raises Park while it has no
    data, Conflict when it is in error.
    """
    if not disk.has_data:
        await wait_until_ready(run, disk.volume_id)
    if disk.old_calls:
        return await old_calls.export(run, disk, operation=operation or run.operation)
    connector = await guests.connector(run, disk.host or "", disk.device_name)
    given = await run.service.volumes.connect_attachment(
        None, disk.attachment_id or "", connector, operation=operation or run.operation
    )
    return given.connection_info


async def leave(run: Run[Compute], disk: Disk, operation: Operation | None = None) -> None:
    """Disconnect a volume from a host; nothing when it is not there.

    With the `operation` that connected it, that one cannot come late any more.
    """
    name = disk.connection_id

    async def verb(agent: AgentClient) -> None:
        await agent.disconnect(name, operation=operation or run.operation)

    await guests.take_back(run, disk.host, f"/connections/{name}", verb)


async def wait_until_ready(
    run: Run[Compute], volume_id: str, *, is_made: bool = False, from_image: bool = False
) -> None:
    """Rest until the volume has its data. Raises Conflict: in error; Unavailable: after long.

    `is_made`: by this operation, so that no attachment has failed. `from_image`: it was reserved
    while it got its data from an image, which its status does not say any more: it has none of the
    image's metadata until then.
    Our own volume service says when a volume that this operation had it make is ready; another
    one is asked now and then.
    """
    volume = await run.service.volumes.show(None, volume_id)
    is_bad = volume.status.startswith("error")
    is_filling = from_image and not (is_bad or volume.volume_image_metadata)
    if is_filling or volume.status in _NOT_READY:
        raise Park(
            signal=journal.word_for(run.saga_id),
            seconds=COMPUTE_VOLUME_POLL_S,
            timeout_s=run.service.settings.volume_ready_s,
        )
    if is_bad:
        if is_made:
            raise Conflict(
                f"Volume {volume_id}, which was to be made for the server, came to be in status "
                f"{volume.status}. {_WHY}"
            )
        raise Conflict(f"Volume {volume_id} is in status {volume.status}; it cannot be attached.")


# -- complete, end -----------------------------------------------------------------------------


async def complete(run: Run[Compute], disk: Disk) -> None:
    """Tell the volume service that the guest has the volume."""
    if disk.old_calls:
        await old_calls.attach(run, disk, run.operation)
        return
    volumes = run.service.volumes
    await volumes.complete_attachment(None, disk.attachment_id or "", operation=run.operation)


async def hold(run: Run[Compute], disk: Disk) -> bool:
    """Tell the volume service that an attachment is held on to; return False when it is gone."""
    return await try_to_hold(run, disk) is not False


async def try_to_hold(run: Run[Compute], disk: Disk) -> bool | None:
    """Do so; return None where it does not agree: it may be about to let go of the attachment.

    A volume that came by the old calls is in use for as long as its server is listed.
    """
    if not disk.attachment_id:
        return await old_calls.hold(run, disk)
    operation = guests.other(run.operation, f"hold.{disk.attachment_id}")
    completing = run.service.volumes.complete_attachment(
        None, disk.attachment_id or "", operation=operation
    )
    try:
        await completing
    except NotFound:
        return False
    except MooringError as error:
        if is_unavailable(error) and run.attempt < COMPUTE_UNDO_ATTEMPTS:
            raise
        return None
    return True


async def try_to_leave(run: Run[Compute], disk: Disk) -> bool:
    """Disconnect the volume from the host; return False when that refuses it, or is long silent."""
    try:
        await guests.insist(run, leave(run, disk))
    except MooringError as error:
        if is_unavailable(error):
            raise
        return False
    return True


async def end(run: Run[Compute], disk: Disk, *, operation: Operation | None = None) -> None:
    """End the export to a host and free the volume, by attachment or by the old calls.

    Gone is fine. Of an attachment under another operation than the step's, if one is given.
    """
    if not disk.attachment_id:
        await old_calls.end(run, disk)
        return
    volumes = run.service.volumes
    await volumes.delete_attachment(None, disk.attachment_id, operation=operation or run.operation)


# -- what a host is told -----------------------------------------------------------------------


async def specify(run: Run[Compute], disk: Disk) -> DiskSpec:
    """Return a disk as an agent takes it, with fresh connection data."""
    if not disk.attachment_id:
        again = old_calls.exported_again(run) if disk.old_calls else None
        return describe(disk, await old_calls.export(run, disk, operation=again))
    shown = await run.service.volumes.show_attachment(None, disk.attachment_id)
    return describe(disk, shown.connection_info)


async def specify_all(
    run: Run[Compute], host: str, server_id: str, *, completes: bool = False
) -> list[DiskSpec]:
    """Return the volumes that a server has at its host, with fresh connection data.

    One that waits for it by an empty attachment, since it was put away or rebuilt by half, is given
    to the host. `completes`: what an earlier try gave is said to be in use, too.
    """
    disks = await run.service.store.read(
        lambda tx: [disk_of(row, host) for row in attached(devices.of_server(tx, server_id))]
    )
    return [await _specify_given(run, disk, completes=completes) for disk in disks]


async def _specify_given(run: Run[Compute], disk: Disk, *, completes: bool) -> DiskSpec:
    if not disk.attachment_id:
        return await specify(run, disk)
    shown = await run.service.volumes.show_attachment(None, disk.attachment_id)
    connection, is_empty = shown.connection_info, not shown.connection_info
    if is_empty:
        connection = await export(run, disk, guests.other(run.operation, f"give.{shown.id}"))
    if is_empty or (completes and shown.status == "attaching"):
        operation = guests.other(run.operation, f"complete.{shown.id}")
        await run.service.volumes.complete_attachment(None, shown.id, operation=operation)
    return describe(disk, connection)


def describe(disk: Disk, connection: Mapping[str, Any]) -> DiskSpec:
    """Return a disk as an agent takes it, with this connection data."""
    return DiskSpec(
        volume_id=disk.volume_id,
        attachment_id=disk.connection_id,
        connection=dict(connection),
        device=disk.device_name or "",
        boot_index=disk.boot_index,
        shareable=disk.multiattach,
        bus=disk.bus,
    )
