"""What changes volumes and guests while something is done: who is asked for what, in order."""

from __future__ import annotations

from mooring.agent_api import transport as hosts
from mooring.clients import transport
from tests.compute.cloud import ComputeCloud

VOLUMES = frozenset({"PUT connections", "DELETE connections", "PUT departure"})
GUESTS = VOLUMES | {
    *("PUT servers", "DELETE servers", "PUT power"),
    *("PUT disks", "DELETE disks", "PUT mirror", "PUT switch", "DELETE mirror"),
}
_PARTS = frozenset({"departure", "power", "disks", "mirror", "switch"})
"""What a request to a host is called by, the last of them in its path; else by its first word."""


class Listener:
    """Writes down what changes a volume or a guest: who was asked, and what, in order."""

    def __init__(self, cloud: ComputeCloud, verbs: frozenset[str] = VOLUMES) -> None:
        """Listen from now on, at hosts to `verbs`; what is only looked at is not heard."""
        self.heard: list[str] = []
        self.ids: list[str] = []
        """Of the attachments that were changed, in the same order."""
        self._verbs = verbs
        cloud.deliver, cloud.deliver_to_host = self.hear, self.hear_host

    async def hear(
        self, request: transport.Request, forward: transport.Forward
    ) -> transport.Response:
        """Pass a call between services on."""
        part = request.path.partition("/volume/v3/attachments")
        if part[1] and request.method != "GET":
            has_connector = b'"connector":{' in request.content.replace(b" ", b"")
            more = " with connector" if has_connector else ""
            end = " complete" if part[2].endswith("/action") else ""
            self.heard.append(f"{request.method} attachment{more}{end}")
            self.ids.append(part[2].removesuffix("/action").lstrip("/"))
        if "/volume/v3/volumes/" in request.path and request.path.endswith("/action"):
            self.heard.append("volume " + request.content.decode().split('"')[1])
        return await forward(request)

    async def hear_host(self, request: hosts.Request, forward: hosts.Forward) -> hosts.Response:
        """Pass a call to a host on."""
        words = request.target.partition("?")[0].split("/")
        known = [word for word in words if word in _PARTS]
        verb = f"{request.method} {known[-1] if known else words[1]}"
        if verb in self._verbs:
            self.heard.append(f"{request.headers['host']}: {verb}")
        return await forward(request)
