"""Calls to hosts that were lost, and come after all."""

from __future__ import annotations

import json

from mooring.agent_api.transport import Forward, Request


async def comes_to(request: Request, forward: Forward) -> int:
    """Deliver a call and return the status of what it comes to.

    A host that takes its time, as on a busy machine, answers 202 before, and is asked again.
    """
    answer = await forward(request)
    while answer.status == 202:
        ticket = json.loads(answer.body)["ticket"]
        answer = await forward(Request("GET", f"/operations/{ticket}?wait=1", request.headers))
    return answer.status
