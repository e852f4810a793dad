"""What a client of a test's cloud sends and gets back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from msgspec import Struct


class Answer(Struct, frozen=True):
    """What a client sees: names of headers in lower case."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        """The content, decoded; None when it is not JSON."""
        is_json = self.content and "json" in self.headers.get("content-type", "")
        return json.loads(self.content) if is_json else None

    @property
    def text(self) -> str:
        """The content, decoded as text."""
        return self.content.decode()

    @property
    def fault(self) -> str:
        """The message of the one fault in the body."""
        (fault,) = self.body.values()
        return fault["message"]

    def key(self, name: str) -> Any:
        """One member of the body, for a request that went well."""
        assert self.status < 300, (self.status, self.content)
        return self.body[name]


def version_header(path: str, version: str) -> dict[str, str]:
    """Return how a request asks for a microversion; nothing when it asks for none."""
    if not version:
        return {}
    if path.startswith("/share/"):
        return {"x-openstack-manila-api-version": version}
    return {"openstack-api-version": f"{path.split('/')[1]} {version}"}


def encode(body: Any) -> tuple[str, bytes | AsyncIterator[bytes]]:
    """Return the type of what is sent, and how it is sent."""
    if body is None:
        return "", b""
    if isinstance(body, bytes) or hasattr(body, "__anext__"):
        return "application/octet-stream", body
    return "application/json", json.dumps(body).encode()
