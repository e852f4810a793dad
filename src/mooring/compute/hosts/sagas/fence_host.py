"""Fence a host: have it ended for certain, and only then force it down, with the proof.

What is done to servers of a host that is gone relies on that proof: two guests of one server would
write to one disk. A fence that fails changes nothing but its own record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from msgspec import Struct
from msgspec.structs import replace

from mooring import bulkhead
from mooring.compute.hosts import fencings, hosts
from mooring.errors import Conflict, MooringError
from mooring.saga.define import Run, Saga, Step, Story, exclusive

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.compute.tables import Host

log = structlog.get_logger()
_LONGEST_S = 7200.0
"""Longer than a fence command may be given, and than it waits for its turn: it ends itself before.
"""


class FenceHost(Struct, frozen=True, kw_only=True):
    """The notes.

    user_id   who is recorded as having it forced down
    silent_s  for how many seconds it was silent, when it is fenced by itself; else 0
    proof     what the fence said when it had ended the host
    """

    host: str
    user_id: str
    silent_s: int = 0
    proof: str = ""

    @property
    def why(self) -> str:
        """Why the host is forced down."""
        silence = f"silent for {self.silent_s} s; " if self.silent_s else ""
        return f"{silence}fence: {self.proof}"


def lock_of(host: str) -> str:
    """Return the key that the fencing of a host holds."""
    return f"host:{host}"


def begin(tx: Session, notes: FenceHost, run: Run[Compute]) -> None:
    """Record that the host is being fenced."""
    fencings.begin(tx, _find(tx, notes.host), notes.user_id, notes.silent_s, run.now())


def give_up(tx: Session, notes: FenceHost, run: Run[Compute]) -> None:
    """Record why it was not."""
    why = run.error.public if run.error else ""
    fencings.fail(tx, notes.host, why, run.now())


async def end_host(notes: FenceHost, run: Run[Compute]) -> FenceHost:
    """Have the host ended. Whoever is killed here has it ended once more."""
    # A rack that lost its power takes long to be fenced, and keeps nobody else from working.
    with bulkhead.outside():
        proof = await run.service.fence.end(notes.host, lambda: _require_silence(notes, run))
    return replace(notes, proof=proof)


async def _require_silence(notes: FenceHost, run: Run[Compute]) -> None:
    """Raise Conflict for a host that answers again, if it is fenced because it was silent.

    It may have waited for its turn, or for a control plane that was down.
    """
    if not notes.silent_s or not await _answers(notes, run):
        return
    raise Conflict(
        f"Host {notes.host} answers again and was not fenced. Nothing was changed; it is fenced by "
        "itself when it is silent for as long again."
    )


async def _answers(notes: FenceHost, run: Run[Compute]) -> bool:
    """Whether the host was heard since this began, or is heard now."""

    def was_heard(tx: Session) -> bool:
        host, row = hosts.find(tx, notes.host), fencings.find(tx, notes.host)
        return host is not None and row is not None and host.last_seen_at > row.started_at

    if await run.service.store.read(was_heard):
        return True
    try:
        await run.service.agents[notes.host].host()
    except MooringError:
        return False
    return True


def force_down(tx: Session, notes: FenceHost, run: Run[Compute]) -> None:
    """Say that the host is down, and why."""
    now = run.now()
    hosts.force_down(_find(tx, notes.host), by=notes.user_id, why=notes.why, now=now)
    fencings.succeed(tx, notes.host, now)


def _find(tx: Session, name: str) -> Host:
    host = hosts.find(tx, name)
    if host is None:
        raise Conflict(f"Host {name} is out of the cloud; there is nothing to force down.")
    return host


def _tell_failed(tx: Session, notes: FenceHost, run: Run[Compute]) -> None:
    del tx
    log.error("a host was not fenced", host=notes.host, reason=str(run.error))


FENCE_HOST = Saga(
    "compute.fence_host",
    FenceHost,
    Step("begin", begin, give_up),
    Step("end_host", end_host, deadline_s=_LONGEST_S),
    Step("force_down", force_down),
    locks=lambda notes: [exclusive(lock_of(notes.host))],
    answered_after="force_down",
    story=Story(failed=_tell_failed),
    residue=("host_fencings",),
)
