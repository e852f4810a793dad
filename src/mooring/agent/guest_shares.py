"""Shares that this host mounts for its guests. Each verb may be repeated."""

from __future__ import annotations

from mooring.agent.host import Agent, mounts_of
from mooring.agent.serving import Call, Handlers
from mooring.agent_api import verbs
from mooring.agent_api.guest_shares import Mounted
from mooring.fence.journal import Answer

handlers = Handlers[Agent]()


@handlers.of(verbs.LIST_SHARE_MOUNTS)
async def list_share_mounts(call: Call[Agent]) -> Answer:
    """Answer which servers have which shares mounted here, but for those that cannot be read."""
    mounted, _ = await mounts_of(call.agent)
    return Answer(body=mounted)


@handlers.of(verbs.MOUNT_SHARE)
async def mount_share(call: Call[Agent]) -> Answer:
    """Mount a share for a server."""
    path = await call.agent.guest_shares.mount(
        call.path["server_id"], call.path["share_id"], call.body, call.operation_key
    )
    # What was mounted is gone when the machine starts anew, and may be when its server does.
    return Answer(body=Mounted(str(path)), secret=True)


@handlers.of(verbs.UNMOUNT_SHARE)
async def unmount_share(call: Call[Agent]) -> Answer:
    """Note that a server needs a share no more."""
    await call.agent.guest_shares.unmount(call.path["server_id"], call.path["share_id"])
    return Answer(status=204)
