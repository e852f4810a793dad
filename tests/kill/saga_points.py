"""Where a control plane is killed: at every point of every saga, and what leads there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from mooring.saga import laws
from mooring.saga.define import Each, Saga, Step
from mooring.services import SERVICES
from tests.kill import (
    guest_share_workload,
    rescue_workload,
    shared_move_workload,
    shelve_workload,
)
from tests.kill.elsewhere_workload import ELSEWHERE
from tests.kill.extend_workload import HANGING, HELD_UP, INSIST
from tests.kill.fence_workload import FENCE
from tests.kill.harness import Answer
from tests.kill.move_workload import COLD, DELETE_MOVING, HELD, IN_VAIN, MOVES, REVERT, STAYS
from tests.kill.rebuild_workload import LEFT_RESERVED, RENEW
from tests.kill.snapshot_workload import BESIDE, MIGRATIONS

_WAITING_FOR = {DELETE_MOVING: HELD} | dict.fromkeys(
    ("compute.reset_state/unmount_share", "compute.reset_state/revoke_access"),
    guest_share_workload.HELD_UP,
)
"""What has to wait so that a step is come to."""
Act = Callable[[], Answer]
_WITH_SHARES = {
    **dict.fromkeys((COLD, REVERT), shared_move_workload.OF_SHARES),
    **dict.fromkeys(
        (*guest_share_workload.STARTS, *rescue_workload.STARTS),
        frozenset({"grant_access", "mount_share"}),
    ),
}
"""Steps that a server without shares does not pass, by saga."""


class SagaPoint(Struct, frozen=True):
    """A point at which a control plane is killed; `name` is `SAGA/STEP/HEADING/MOMENT`.

    Behind it stands `ELSEWHERE` where the saga is to bring a server to another host than before,
    and `BESIDE` where it is to bring a volume to another pool of the same host.
    """

    saga: Saga[Any]
    name: str

    @property
    def point(self) -> str:
        """What the process passes."""
        return self.name.removesuffix(shelve_workload.ELSEWHERE).removesuffix(BESIDE)

    @property
    def step(self) -> str:
        """The step, with its saga: `SAGA/STEP`."""
        return self.point.rpartition("/")[0].rpartition("/")[0]

    @property
    def kill_at(self) -> str:
        """What the setting of the control plane must say."""
        return _setting(self.saga, self.point)

    @property
    def has_two_pools(self) -> bool:
        """Whether the host is to have another pool of volumes."""
        return self.name.endswith(BESIDE)

    @property
    def kill_other_at(self) -> str | None:
        """What that of the other host must say; None when one host is enough."""
        if self.has_two_pools:
            return None
        if self.name != self.point:
            return ""
        moves = self.saga.name in {*MOVES, shared_move_workload.RELEASE, FENCE, *MIGRATIONS}
        if not moves and self.step not in ELSEWHERE | {DELETE_MOVING}:
            return None
        in_vain = STAYS | shared_move_workload.STAYS | ELSEWHERE
        return IN_VAIN if self.step in in_vain else ""

    def besides(self, rarer: Mapping[str, list[Act]]) -> list[Act]:
        """Return what is done besides the ten operations, of `rarer_operations`."""
        where = self.name.removeprefix(self.point)
        found = rarer.get(self.step + where, rarer.get(self.saga.name + where))
        return [] if found is None else found


_OF_EACH_SAGA = [
    SagaPoint(saga, point)
    for saga in laws.sagas_of(*(each.name for each in SERVICES))
    for point in laws.points_of(saga)
]
_ELSEWHERE = [
    SagaPoint(one.saga, one.name + shelve_workload.ELSEWHERE)
    for one in _OF_EACH_SAGA
    if one.saga.name == shelve_workload.UNSHELVE
]
_BESIDE = [
    SagaPoint(one.saga, one.name + BESIDE) for one in _OF_EACH_SAGA if one.saga.name in MIGRATIONS
]
SAGA_POINTS = [*_OF_EACH_SAGA, *_ELSEWHERE, *_BESIDE]


def _setting(saga: Saga[Any], point: str) -> str:
    """What `kill_at` must say so that the process gets to the point, and dies there."""
    _, step, heading, _ = point.split("/")
    if heading == "forward" and saga.name == "compute.release_device":
        return f"!compute.detach_volume/delete_attachment/forward/before,{point}"
    if saga.name == "volume.reset_status" and step in {"stop_compute", "settle_size"}:
        return f"{HELD_UP},{point}"
    if saga.name == RENEW and (step, heading) in {
        ("connect_volume", "forward"),
        ("complete_volume", "forward"),
    }:
        return f"{LEFT_RESERVED},{point}"
    if held := _WAITING_FOR.get(f"{saga.name}/{step}"):
        return f"{held},{point}"
    before = {INSIST: HANGING, shared_move_workload.RELEASE: shared_move_workload.NOT_LET_GO}
    if saga.name in before:
        point = f"{before[saga.name]},{point}"
    if heading == "forward":
        return point
    refused = f"!{saga.name}/{_last_undo(saga)}/back/before," if heading == "leaving" else ""
    return f"!{saga.name}/{_fails_at(saga, heading, step)}/forward/before,{refused}{point}"


def _steps(saga: Saga[Any]) -> list[Step]:
    return [
        one
        for part in saga.steps
        for one in (part.steps if isinstance(part, Each) else (part,))
        if isinstance(one, Step)
    ]


def _last_undo(saga: Saga[Any]) -> str:
    """The step whose undo is the first to run, and, refused, ends the unwinding."""
    failing, steps = _fails_at(saga, "leaving"), _passed_by_all(saga)
    names = [step.name for step in steps]
    return [step.name for step in steps[: names.index(failing) + 1] if step.undo][-1]


def _fails_at(saga: Saga[Any], heading: str, step: str = "") -> str:
    """The step whose failure leads into this heading, or to the undo of this step."""
    is_of_shares = step in _WITH_SHARES.get(saga.name, ())
    names = [one.name for one in (_steps if is_of_shares else _passed_by_all)(saga)]
    if heading == "failing":
        # Not at the pivot: a leading transaction that fails takes the whole start back.
        return names[-1]
    if saga.kept_after:
        # Behind it nothing is undone that was shown.
        return saga.kept_after
    return names[names.index(saga.pivot) - 1] if saga.pivot else names[-1]


def _passed_by_all(saga: Saga[Any]) -> list[Step]:
    """Return the steps that a server without shares passes, too."""
    return [one for one in _steps(saga) if one.name not in _WITH_SHARES.get(saga.name, ())]
