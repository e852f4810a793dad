"""A volume service that offers no attachments, as one before 3.44 does (specs 001)."""

from __future__ import annotations

import json

from mooring.clients.transport import Forward, Request, Response
from tests.compute.cloud import ComputeCloud

NEWEST = (3, 43)


class OldService:
    """Stands before the volume service, and speaks no microversion above 3.43 while `is_old`."""

    def __init__(self, cloud: ComputeCloud) -> None:
        self.is_old = True
        self.actions: list[str] = []
        """The actions of volumes that compute asked for."""
        self._forward = cloud.deliver
        cloud.deliver = self.deliver

    async def deliver(self, request: Request, forward: Forward) -> Response:
        """Pass on what such a service knows."""
        path = request.path
        if "/volume/" not in path or request.headers.get("user-agent") != "mooring":
            return await forward(request)
        wanted = request.headers.get("openstack-api-version", "volume 3.0").split()[-1]
        if self.is_old and tuple(map(int, wanted.split("."))) > NEWEST:
            return _answer(406, {"computeFault": {"message": f"Version {wanted} is unknown."}})
        if path.endswith("/action"):
            self.actions += json.loads(request.content)
        answer = await forward(request)
        if not self.is_old or not path.endswith("/v3/"):
            return answer
        shown = json.loads(await answer.whole())
        for version in shown["versions"]:
            version["version"] = ".".join(map(str, NEWEST))
        return _answer(answer.status, shown)


def _answer(status: int, body: object) -> Response:
    headers = {"content-type": "application/json"}
    return Response(status, json.dumps(body).encode(), headers)
