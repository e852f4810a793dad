"""The snapshots of a volume service as compute meets them: a real Cinder's, without operations.

Source: facts/block_storage.md 1.8 and 5.2.
"""

from __future__ import annotations

import json
import re
from typing import Any

_PATH = re.compile(r".*/snapshots/([^/]+)(/action)?")
_EDGES = {
    "creating": ("creating", "available", "error"),
    "deleting": ("deleting", "error_deleting"),
}


class SnapshotDesk:
    """Keeps snapshots, takes what compute tells of them, and finishes those that it may."""

    def __init__(self) -> None:
        self.statuses: dict[str, str] = {}
        self.told: list[str] = []
        """Every status that compute told, taken or not."""
        self.finishes = True
        """Whether a snapshot is available as soon as compute has done its part."""
        self.progress = "90%"
        """What is shown of a snapshot that compute has done its part for."""
        self.unavailable = 0
        """So many calls are answered 503."""
        self.forbids = False
        """Whether compute may not tell anything."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer as an application."""
        content = b""
        while (message := await receive()).get("more_body") or message.get("body"):
            content += message["body"]
            if not message.get("more_body"):
                break
        status, body = self.answer(scope["method"], scope["path"], content)
        data = json.dumps(body).encode() if body is not None else b""
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": data})

    def answer(self, method: str, path: str, content: bytes) -> tuple[int, Any]:
        """Return status and body for a request about one snapshot."""
        if self.unavailable:
            self.unavailable -= 1
            return 503, {"error": {"message": "Later."}}
        found = _PATH.fullmatch(path)
        snapshot_id = found[1] if found else ""
        if snapshot_id not in self.statuses:
            return 404, {"itemNotFound": {"message": f"Snapshot {snapshot_id} is unknown."}}
        if method == "GET":
            shown = {"id": snapshot_id, "status": self.statuses[snapshot_id], "volume_id": ""}
            shown["os-extended-snapshot-attributes:progress"] = self.progress
            return 200, {"snapshot": shown}
        if self.forbids:
            return 403, {"forbidden": {"message": "Policy does not allow this."}}
        return self._take(snapshot_id, json.loads(content)["os-update_snapshot_status"])

    def _take(self, snapshot_id: str, said: dict[str, str]) -> tuple[int, Any]:
        assert said["progress"] == "90%"
        present, status = self.statuses[snapshot_id], said["status"]
        self.told.append(status)
        if status not in _EDGES.get(present, ()):
            return 400, {"badRequest": {"message": f"Not {status} from {present}."}}
        self.statuses[snapshot_id] = status
        if status == "creating" and self.finishes:
            self.statuses[snapshot_id] = "available"
        if status == "deleting" and self.finishes:
            del self.statuses[snapshot_id]
        return 202, None


def is_of_snapshot(path: str) -> bool:
    """Whether a request is for the desk."""
    return _PATH.fullmatch(path) is not None and "/os-assisted" not in path
