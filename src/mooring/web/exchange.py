"""One request and its answer: the request id, the headers that every answer has, faults."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec
from starlette.responses import Response, StreamingResponse

from mooring import limits
from mooring.clients.refusals import BUSY_HEADER
from mooring.web import faults, microversion
from mooring.web.face import Fault
from mooring.web.identity import NOBODY
from mooring.web.versions import text

if TYPE_CHECKING:
    from starlette.requests import Request

    from mooring.errors import MooringError
    from mooring.web.api import Reply, Route, Version
    from mooring.web.face import Face

_REQUEST_ID = re.compile(
    r"req-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE
)
_UNTOLD = "{token}"
_encode = msgspec.json.Encoder().encode


class Exchange:
    """What is known of one request while it is answered."""

    def __init__(self, face: Face, request: Request, identity_url: str) -> None:
        self.face, self.request = face, request
        self.request_id = f"req-{uuid4()}"
        self.who = NOBODY
        """Who asks; nobody until it is known."""
        self.told: dict[str, str] = {}
        """What the handler says of it for the audit log."""
        self.route: Route | None = None
        """What answers it; None until it is known."""
        self.version: Version | None = None
        """The microversion to echo; None until it is known."""
        self.methods: list[str] = []
        """What a 405 names in `Allow`."""
        self._identity_url = identity_url

    @property
    def path_told(self) -> str:
        """What was asked for, as a log may have it: without a token that the path has."""
        path = self.request.url.path
        if self.route is not None and self.route.path.endswith(_UNTOLD):
            return path.rpartition("/")[0] + f"/{_UNTOLD}"
        return path

    @property
    def global_request_id(self) -> str:
        """The id that the caller gave the request, when it has the right form; else empty."""
        given = self.request.headers.get("x-openstack-request-id", "")
        return given if _REQUEST_ID.fullmatch(given) else ""

    def respond(self, reply: Reply) -> Response:
        """Return the response of a handler's reply."""
        headers = {name.lower(): value for name, value in reply.headers.items()}
        headers |= self._headers()
        media = headers.pop("content-type", None)
        if reply.stream is not None:
            media = media or "application/octet-stream"
            return StreamingResponse(reply.stream, reply.status, headers, media)
        if reply.body is None:
            return Response(None, reply.status, headers, media)
        if isinstance(reply.body, bytes):
            return Response(reply.body, reply.status, headers, media or "application/octet-stream")
        return Response(_encode(reply.body), reply.status, headers, media or "application/json")

    def refuse(self, error: MooringError) -> Response:
        """Return the fault of an error, in the service's shape."""
        status = faults.code(error, self.face.codes)
        if isinstance(error, microversion.UnknownVersion):
            self.version = error.requested
        shape = faults.titled if error.kind == "unauthenticated" else self.face.shape
        message = error.public
        if status >= 500:
            message = f"{message} The request's id is {self.request_id}."
        media, content = shape(
            Fault(
                status=status,
                title=faults.title(status),
                message=message,
                request_id=self.request_id,
                error=error,
                wants_json=self._wants_json,
                minimum=text(self.face.minimum),
                maximum=text(self.face.maximum),
                version=self.version or self.face.minimum,
            )
        )
        headers = self._headers()
        if status == 401:
            headers["www-authenticate"] = f'Keystone uri="{self._identity_url}"'
        elif status == 405:
            headers["allow"] = ", ".join(self.methods)
        elif status == 415 and self.request.method == "PATCH" and "media" in error.detail:
            # Which of several dialects of a patch are spoken (RFC 5789, 2.2).
            headers["accept-patch"] = ", ".join(error.detail["media"])
        elif status in (413, 429):
            headers["retry-after"] = str(error.detail.get("retry_after_s", 0))
        elif status in (503, 507):
            headers["retry-after"] = str(limits.WEB_AGAIN_S)
        elif status == 409 and (error.detail.get("busy") or error.detail.get("holder")):
            headers[BUSY_HEADER] = str(error.detail.get("holder", "1"))
        return Response(content, status, headers, media)

    @property
    def _wants_json(self) -> bool:
        headers = self.request.headers
        return "json" in headers.get("accept", "") or "json" in headers.get("content-type", "")

    def _headers(self) -> dict[str, str]:
        """Return what every answer has, by names in lower case."""
        headers = {"x-openstack-request-id": self.request_id}
        if self.face.request_id_header:
            headers[self.face.request_id_header] = self.request_id
        headers |= self.face.headers
        return headers | microversion.answer_headers(self.face, self.version)
