"""What hosts do for servers. Connection data is fetched when needed, kept nowhere (specs 001)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from mooring.agent_api.verbs import DELETE_SERVER
from mooring.compute.hosts import hosts
from mooring.errors import Conflict, MooringError, Unavailable, told_also
from mooring.fence import debts
from mooring.fence.operation import Operation
from mooring.fence.rules import is_fenced
from mooring.limits import COMPUTE_UNDO_ATTEMPTS
from mooring.saga.journal import is_unavailable
from mooring.saga.ownership import require_lease

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.agent_api.client import AgentClient
    from mooring.agent_api.servers import Guest, ServerSpec
    from mooring.compute.service import Compute
    from mooring.saga.define import Run

T = TypeVar("T")

BY_HOST = "by_host"
"""In the detail of an error that a host answered, or was not asked for: which host."""


async def ask(run: Run[Compute], host: str, verb: Callable[[AgentClient], Awaitable[T]]) -> T:
    """Ask a host's agent. One with a new incarnation is read first, for the next try.

    An error says which host it is of (`BY_HOST`).
    """
    agent = run.service.agents[host]
    try:
        return await verb(agent)
    except MooringError as error:
        if isinstance(error, Unavailable) and "incarnation" in error.detail:
            await agent.host()
        raise told_also(error, **{BY_HOST: host}) from error


async def put(run: Run[Compute], host: str, server_id: str, spec: ServerSpec) -> Guest:
    """Define a guest at a host, and start it if it is to run; one that is there already is fine.

    Raises Conflict where the host's agent is too old to make its swap disk.
    """

    async def verb(agent: AgentClient) -> Guest:
        return await agent.put_server(server_id, spec, operation=run.operation)

    guest = await ask(run, host, verb)
    if guest.swap_mib != spec.swap_mib:
        raise Conflict(
            f"The agent of host {host} is of a release that makes no swap disks, and server "
            f"{server_id} is to have one. Upgrade the agent, or choose another flavor.",
            **{BY_HOST: host},
        )
    return guest


async def claim(run: Run[Compute], host: str, server_id: str) -> Guest | None:
    """Return the guest that a host has, to which no call of before comes late any more."""

    async def verb(agent: AgentClient) -> Guest | None:
        await agent.claim_server(server_id, operation=run.operation)
        return await agent.show_server(server_id)

    return await ask(run, host, verb)


async def claim_unless_lost(run: Run[Compute], host: str, server_id: str) -> Guest | None:
    """`claim`, and None of a host that is lost: it ends foreign guests before it may be up."""
    return None if await is_lost(run, host) else await claim(run, host, server_id)


async def connector(run: Run[Compute], host: str, mountpoint: str | None = None) -> dict[str, Any]:
    """Return how a host connects volumes, with the place in the guest as Cinder wants it."""
    found = await ask(run, host, lambda agent: agent.connector())
    return {**found, "mountpoint": mountpoint} if mountpoint else found


async def destroy(
    run: Run[Compute],
    host: str | None,
    server_id: str,
    operation: Operation | None = None,
    *,
    keeps_disks: bool = False,
) -> None:
    """End the guest and remove what is its own on the host; nothing when there is none.

    With the `operation` that made it there, that one cannot come late any more. Its root disk
    stays where it `keeps_disks`.
    """

    async def verb(agent: AgentClient) -> None:
        await agent.delete_server(
            server_id, keeps_disks=keeps_disks, operation=operation or run.operation
        )

    query = {"keeps_disks": 1} if keeps_disks else {}
    await take_back(run, host, DELETE_SERVER.target(server_id, **query), verb)


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
    if row.forced_down and await store.write(lambda tx: _owe(tx, row.name, path, run)):
        return
    await ask(run, row.name, verb)


def _owe(tx: Session, host: str, path: str, run: Run[Compute]) -> bool:
    """Note that a host has still to DELETE `path`; False for one that is said to live by now."""
    row = hosts.find(tx, host)
    if row is None:
        return True
    hosts.hold(tx, row)
    if row.forced_down:
        # A host that has paid since, and is down again, would refuse for ever what a sleeper owes.
        require_lease(tx, run)
        debts.owe(tx, host, "DELETE", path, run.operation, now=run.now())
    return row.forced_down


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
        if may_pass or is_fenced(error):
            raise
        return str(error.public)
    return ""


async def insist(run: Run[Compute], work: Awaitable[T]) -> T:
    """Await work behind a pivot; after `COMPUTE_UNDO_ATTEMPTS` tries let the saga end badly."""
    try:
        return await work
    except MooringError as error:
        if is_unavailable(error) and run.attempt >= COMPUTE_UNDO_ATTEMPTS:
            raise Unavailable(
                error.public, private=error.private, **{**error.detail, "final": True}
            ) from error
        raise


def other(operation: Operation, what: str) -> Operation:
    """Return the operation of a second call in the same step, told apart by `what`."""
    return Operation(
        operation.saga, f"{operation.step}.{what}", operation.epoch, operation.generation
    )
