"""What hosts do for servers. Connection data is fetched when needed, kept nowhere (specs 001)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from mooring.agent_api.disks import DiskSpec
from mooring.compute.hosts import hosts
from mooring.compute.volumes import devices
from mooring.errors import MooringError, NotFound, Unavailable
from mooring.fence import debts
from mooring.fence.operation import Operation
from mooring.limits import COMPUTE_UNDO_ATTEMPTS
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from mooring.agent_api.client import AgentClient
    from mooring.compute.service import Compute
    from mooring.compute.tables import BlockDevice
    from mooring.saga.define import Run

T = TypeVar("T")


class Disk(Struct, frozen=True):
    """A volume of a server. Without an attachment it came by the old calls."""

    server_id: str
    volume_id: str
    attachment_id: str | None
    device_name: str | None
    boot_index: int | None = None
    multiattach: bool = False

    @property
    def connection_id(self) -> str:
        """What its connection is called on the host."""
        return self.attachment_id or self.volume_id


def disk_of(row: BlockDevice) -> Disk:
    """Return the disk that a block device with a volume stands for."""
    return Disk(
        row.server_id,
        row.volume_id or "",
        row.attachment_id,
        row.device_name,
        row.boot_index,
        row.multiattach,
    )


async def ask(run: Run[Compute], host: str, verb: Callable[[AgentClient], Awaitable[T]]) -> T:
    """Ask a host's agent. One with a new incarnation is read first, for the next try."""
    agent = run.service.agents[host]
    try:
        return await verb(agent)
    except Unavailable as error:
        if "incarnation" in error.detail:
            await agent.host()
        raise


async def connector(run: Run[Compute], host: str, mountpoint: str | None = None) -> dict[str, Any]:
    """Return how a host connects volumes, with the place in the guest as Cinder wants it."""
    found = await ask(run, host, lambda agent: agent.connector())
    return {**found, "mountpoint": mountpoint} if mountpoint else found


async def fetch_connection(run: Run[Compute], host: str, disk: Disk) -> Mapping[str, Any]:
    """Return fresh connection data: by attachment id, or by the old call where there is none."""
    volumes = run.service.volumes
    if disk.attachment_id:
        shown = await volumes.show_attachment(None, disk.attachment_id)
        return shown.connection_info
    arguments = {"connector": await connector(run, host)}
    answer = await volumes.act(None, disk.volume_id, "os-initialize_connection", arguments)
    return answer["connection_info"]


async def specify(run: Run[Compute], host: str, disk: Disk) -> DiskSpec:
    """Return a disk as an agent takes it, with fresh connection data."""
    return DiskSpec(
        volume_id=disk.volume_id,
        attachment_id=disk.connection_id,
        connection=dict(await fetch_connection(run, host, disk)),
        device=disk.device_name or "",
        boot_index=disk.boot_index,
        shareable=disk.multiattach,
    )


async def specify_all(run: Run[Compute], host: str, server_id: str) -> list[DiskSpec]:
    """Return the volumes that a server has, with fresh connection data."""
    rows = await run.service.store.read(
        lambda tx: [disk_of(row) for row in attached(devices.of_server(tx, server_id))]
    )
    return [await specify(run, host, disk) for disk in rows]


def attached(rows: Sequence[BlockDevice]) -> list[BlockDevice]:
    """Return the volumes among block devices that the guest has, or is to have."""
    return [row for row in rows if row.volume_id and row.state == "attached"]


async def connect(run: Run[Compute], host: str, disk: Disk) -> None:
    """Make an exported volume a device of the host."""
    connection = await fetch_connection(run, host, disk)
    name, volume_id, operation = disk.connection_id, disk.volume_id, run.operation
    await ask(
        run, host, lambda agent: agent.connect(name, volume_id, connection, operation=operation)
    )


async def disconnect(run: Run[Compute], host: str | None, connection_id: str) -> None:
    """Remove the device of a volume from a host; nothing when it is not there."""

    async def verb(agent: AgentClient) -> None:
        await agent.disconnect(connection_id, operation=run.operation)

    await take_back(run, host, f"/connections/{connection_id}", verb)


async def plug(run: Run[Compute], host: str, disk: Disk, operation: Operation | None = None) -> str:
    """Give a volume to the guest, running or not; return the device's name."""
    spec = await specify(run, host, disk)
    named = operation or run.operation
    given = await ask(
        run, host, lambda agent: agent.plug_disk(disk.server_id, spec, operation=named)
    )
    return given.device


async def plug_again(run: Run[Compute], host: str, disk: Disk) -> None:
    """See that a guest which was to lose a volume has it; nothing when host or guest is gone."""
    if await is_lost(run, host):
        return
    try:
        await plug(run, host, disk, run.operation.again())
    except NotFound:
        return


async def unplug(run: Run[Compute], host: str | None, server_id: str, volume_id: str) -> None:
    """Take a volume from the guest and see that it let go; nothing when it has none.

    Raises Conflict when the guest keeps it.
    """

    async def verb(agent: AgentClient) -> None:
        try:
            await agent.unplug_disk(server_id, volume_id, operation=run.operation)
        except NotFound:
            return

    await take_back(run, host, f"/servers/{server_id}/disks/{volume_id}", verb)


async def destroy(run: Run[Compute], host: str | None, server_id: str) -> None:
    """End the guest and remove what is its own on the host; nothing when there is none."""

    async def verb(agent: AgentClient) -> None:
        await agent.delete_server(server_id, operation=run.operation)

    await take_back(run, host, f"/servers/{server_id}", verb)


async def take_back(
    run: Run[Compute],
    host: str | None,
    path: str,
    verb: Callable[[AgentClient], Awaitable[None]],
) -> None:
    """Ask a host to DELETE `path`. One that was forced down owes it, and pays when it is back.

    A host that was removed holds nothing any more.
    """
    store = run.service.store
    row = await store.read(lambda tx: hosts.find(tx, host))
    if row is None:
        return
    if row.forced_down:
        now = run.now()
        await store.write(
            lambda tx: debts.owe(tx, row.name, "DELETE", path, run.operation, now=now)
        )
        return
    await ask(run, row.name, verb)


async def is_lost(run: Run[Compute], host: str) -> bool:
    """Whether a host was removed or forced down: it does nothing any more."""
    row = await run.service.store.read(lambda tx: hosts.find(tx, host))
    return row is None or row.forced_down


async def give_up_late(run: Run[Compute], undoing: Awaitable[None]) -> str:
    """Await part of an unwinding; return "" or, when it will not go, why.

    What is only Unavailable is raised, to be tried again, up to `COMPUTE_UNDO_ATTEMPTS` times; so
    is a refusal by the fence, because somebody who came later has the thing in hand.
    """
    try:
        await undoing
    except MooringError as error:
        may_pass = is_unavailable(error) and run.attempt < COMPUTE_UNDO_ATTEMPTS
        if may_pass or error.detail.get("status") in {410, 412}:
            raise
        return str(error.public)
    return ""


async def insist(run: Run[Compute], work: Awaitable[None]) -> None:
    """Await work behind a pivot; after `COMPUTE_UNDO_ATTEMPTS` tries let the saga end badly."""
    try:
        await work
    except MooringError as error:
        if is_unavailable(error) and run.attempt >= COMPUTE_UNDO_ATTEMPTS:
            raise Unavailable(
                error.public, private=error.private, **{**error.detail, "final": True}
            ) from error
        raise


def may_be_repeated(run: Run[Compute]) -> bool:
    """Whether this step may have been at work before: it was tried, or its process died."""
    return run.attempt > 1 or run.operation.epoch > 1


def other(operation: Operation, what: str) -> Operation:
    """Return the operation of a second call in the same step, told apart by `what`."""
    return Operation(
        operation.saga, f"{operation.step}.{what}", operation.epoch, operation.generation
    )
