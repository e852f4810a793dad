"""What other services tell about a server's volumes and ports, and what becomes of it.

Source: facts/compute.md 8 and 6.4. An event that nobody waits for is accepted and changes nothing:
the cloud has no network service, no accelerators and no hosts without a hypervisor of ours.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring.compute.actions import actions
from mooring.compute.rebuild.sagas.reimaged_root import outcome_of, signal_of
from mooring.compute.tables import Server
from mooring.compute.volumes import devices
from mooring.compute.volumes.sagas.extend_again import ACTION
from mooring.compute.volumes.sagas.extend_notes import ExtendVolume
from mooring.compute.volumes.sagas.extend_volume import EXTEND_VOLUME
from mooring.fence import table as fence
from mooring.fence.table import Answer
from mooring.saga import journal

if TYPE_CHECKING:
    from mooring.compute.service import Compute
    from mooring.fence.operation import Operation
    from mooring.who import Who

ACCEPTED, NO_TAG, NO_SERVER, REFUSED = 200, 400, 404, 422

_EXTENDED, _REIMAGED = "volume-extended", "volume-reimaged"
_TAGGED = frozenset({_EXTENDED, "power-update", "accelerator-request-bound"})
_RESOURCE = "external-events"


class News(Struct, frozen=True, kw_only=True):
    """One event: `tag` is the id of the volume or port, "" when there is none."""

    server_id: str
    name: str
    status: str = "completed"
    tag: str = ""


class Sender(Struct, frozen=True):
    """Who sends events, under which operation of theirs.

    `awaits_completion`: whether volume-extended is answered by the volume service's completion
    action.
    """

    who: Who
    awaits_completion: bool
    operation: Operation | None = None


def take(tx: Session, compute: Compute, sender: Sender, news: Sequence[News]) -> list[int]:
    """Take events; return a code for each, in their order. An operation is heard once.

    What was started for an operation is filed under it, so that burying it ends that too. A rebuild
    that waits for a volume is woken, whatever the event's status: it goes by the volume's first.
    Raises Gone, Outdated.
    """
    kept = fence.admit(tx, sender.operation, _RESOURCE, verb="POST", shared=True)
    if kept is not None:
        return kept.body
    ids = {one.server_id for one in news}
    found = select(Server.id, Server.host).where(Server.id.in_(ids), Server.deleted_at.is_(None))
    places = {row.id: row.host for row in tx.execute(found)}
    codes = [_judge(one, places) for one in news]
    started = [
        _extend(tx, compute, sender, one, places[one.server_id] or "")
        for one, code in zip(news, codes, strict=True)
        if code == ACCEPTED and one.name == _EXTENDED
    ]
    for one, code in zip(news, codes, strict=True):
        if code == ACCEPTED and one.name == _REIMAGED and _has_volume(tx, one):
            compute.sagas.signal(tx, outcome_of(one.tag, one.status))
            compute.sagas.signal(tx, signal_of(one.tag))
    answer, made = Answer(body=codes), [saga_id for saga_id in started if saga_id]
    fence.record(tx, sender.operation, _RESOURCE, answer, made, verb="POST")
    return codes


def _has_volume(tx: Session, one: News) -> bool:
    # Any other server's word would be taken for that of the one which has the volume.
    return bool(one.tag) and devices.find_volume(tx, one.server_id, one.tag) is not None


def _judge(one: News, places: dict[str, str | None]) -> int:
    if one.server_id not in places:
        return NO_SERVER
    if not one.tag and one.name in _TAGGED:
        return NO_TAG
    if not places[one.server_id]:
        return REFUSED
    return ACCEPTED


def _extend(tx: Session, compute: Compute, sender: Sender, one: News, host: str) -> str:
    """Start to extend a volume under its server's guest; return the saga's id.

    Empty when one that is at work will do just that: without an operation nothing else tells that
    the same event came twice.
    """
    answers = sender.awaits_completion
    if sender.operation is None and _is_at_work(tx, compute, one, answers=answers):
        return ""
    saga_id, now = str(uuid.uuid4()), compute.clock.now()
    action_id = actions.begin(tx, one.server_id, ACTION, sender.who, now, saga_id=saga_id)
    notes = ExtendVolume(
        server_id=one.server_id,
        volume_id=one.tag,
        host=host,
        action_id=action_id,
        answers=answers,
        event=sender.operation.key if sender.operation else "",
    )
    # The sender's token serves nothing here, so it is not kept.
    who = replace(sender.who, token="")
    return compute.sagas.start(tx, EXTEND_VOLUME, notes, who=who, saga_id=saga_id)


def _is_at_work(tx: Session, compute: Compute, one: News, *, answers: bool) -> bool:
    for saga_id in compute.sagas.holders(tx, f"volume:{one.tag}"):
        mark = journal.load(tx, saga_id)
        if mark is None or (mark.name, mark.heading) != (EXTEND_VOLUME.name, "forward"):
            continue
        same = mark.notes["server_id"] == one.server_id and mark.notes["answers"] == answers
        # A volume that waits for its completion keeps its new size until then; any other may
        # have grown once more since it was read.
        is_early = mark.state == "locked" or (answers and mark.step != EXTEND_VOLUME.pivot)
        if same and is_early and not mark.abort:
            return True
    return False
