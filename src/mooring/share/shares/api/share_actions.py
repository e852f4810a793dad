"""What can be done with a share: POST /shares/{share_id}/action.

Up to 2.6 the names of the actions have `os-` before them.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from mooring import limits
from mooring.share.service import Share
from mooring.share.shares import properties, shares
from mooring.share.wire.api import values
from mooring.share.wire.api.values import Flag, asked, renamed_action
from mooring.web.api import Api, Call, Reply
from mooring.web.bodies import Since

api = Api[Share]()

_PATH = "/shares/{share_id}/action"


class SizeBody(Struct, frozen=True):
    """The value of `extend` and `shrink`: the new size in GiB."""

    new_size: int | str
    force: Annotated[Flag | None, Since(2, 64)] = None


class StatusBody(Struct, frozen=True):
    """The value of `reset_status`."""

    status: str


class TaskStateBody(Struct, frozen=True):
    """The value of `reset_task_state`."""

    task_state: str | None = None


@renamed_action(api.action, _PATH, "extend", SizeBody, policy="share:extend")
async def extend(call: Call[Share], body: SizeBody) -> Reply:
    """Make it larger, while its clients use it."""
    if body.force is not None and values.flag(body.force, "force"):
        call.require("share:force_extend")
    await shares.extend(asked(call), call.path["share_id"], _read_size(body))
    return Reply(202)


@renamed_action(api.action, _PATH, "shrink", SizeBody, policy="share:shrink")
async def shrink(call: Call[Share], body: SizeBody) -> Reply:
    """Make it smaller, but never than what is in it."""
    await shares.shrink(asked(call), call.path["share_id"], _read_size(body))
    return Reply(202)


@renamed_action(api.action, _PATH, "force_delete", policy="share:force_delete")
async def force_delete(call: Call[Share]) -> Reply:
    """Delete it in any status."""
    await shares.delete(asked(call), call.path["share_id"], force=True)
    return Reply(202)


@renamed_action(api.action, _PATH, "reset_status", StatusBody, policy="share:reset_status")
async def reset_status(call: Call[Share], body: StatusBody) -> Reply:
    """Set the status by hand."""
    await shares.reset_status(asked(call), call.path["share_id"], body.status)
    return Reply(202)


@api.action(
    _PATH, "reset_task_state", TaskStateBody, policy="share:reset_task_state", since=(2, 22)
)
async def reset_task_state(call: Call[Share], body: TaskStateBody) -> Reply:
    """Forget the state of a migration between pools; the stock client sends it with every `set`."""
    await properties.reset_task_state(asked(call), call.path["share_id"], body.task_state)
    return Reply(202)


def _read_size(body: SizeBody) -> int:
    return values.whole_number(body.new_size, "new_size", least=1, most=limits.VOLUME_SIZE_GIB)
