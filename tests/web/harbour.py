"""A tiny service with every kind of route, and a client that speaks ASGI to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mooring.errors import Conflict, OverQuota, Unavailable
from mooring.store import failures
from mooring.store.base import Store
from mooring.web import faces
from mooring.web.api import Api, Call, Reply
from mooring.web.app import build_app
from mooring.web.face import Face
from mooring.web.policy import Policy
from tests.callers import Tokens

RULES = {
    "boats:get": "rule:project_reader_or_admin",
    "boats:create": "rule:project_member_or_admin",
    "boats:sink": "rule:context_is_admin",
}


class Harbour:
    """The service object: a store that these tests do not need, and the calls it saw."""

    def __init__(self, store: Store | None = None) -> None:
        self.seen: list[Call[Harbour]] = []
        self._store = store

    @property
    def store(self) -> Store:
        assert self._store is not None, "this test has no database"
        return self._store


class Boat(Struct, forbid_unknown_fields=True):
    name: str
    length_m: int = 1


class NewBoat(Struct, forbid_unknown_fields=True):
    boat: Boat


class Rename(Struct, forbid_unknown_fields=True):
    name: str


api = Api[Harbour]()


@api.get("/boats", policy="boats:get")
async def list_boats(call: Call[Harbour]) -> Reply:
    return Reply(200, {"boats": [], "version": call.version})


@api.get("/boats/detail", policy="boats:get")
async def detail(call: Call[Harbour]) -> Reply:
    return Reply(200, {"detail": True})


@api.get("/boats/{boat_id}", policy="boats:get")
async def show(call: Call[Harbour]) -> Reply:
    call.service.seen.append(call)
    links = [call.url(f"/boats/{call.path['boat_id']}"), call.bookmark("/boats/1")]
    return Reply(200, {"boat": call.path, "links": links})


@api.post("/boats", NewBoat, policy="boats:create", until=(2, 4))
async def create(call: Call[Harbour], body: NewBoat) -> Reply:
    return Reply(202, {"boat": body.boat})


@api.post("/boats", dict[str, Any], policy="boats:create", since=(2, 5))
async def create_freely(call: Call[Harbour], body: dict[str, Any]) -> Reply:
    return Reply(201, {"boat": body})


@api.put("/boats/{boat_id}/cargo", policy="boats:create")
async def load(call: Call[Harbour]) -> Reply:
    size = 0
    async for chunk in call.request.stream():
        size += len(chunk)
    return Reply(200, {"size": size})


@api.get("/boats/{boat_id}/cargo", policy="boats:get")
async def unload(call: Call[Harbour]) -> Reply:
    async def chunks() -> AsyncIterator[bytes]:
        for number in range(3):
            yield bytes([number]) * 4

    return Reply(200, stream=chunks())


@api.delete("/boats/{boat_id}", policy="boats:sink")
async def sink(call: Call[Harbour]) -> Reply:
    return Reply(204)


@api.action("/boats/{boat_id}/action", "rename", Rename, policy="boats:create")
async def rename(call: Call[Harbour], body: Rename) -> Reply:
    return Reply(202, {"name": body.name})


@api.action("/boats/{boat_id}/action", "start", policy="boats:create", since=(2, 5))
async def start(call: Call[Harbour]) -> Reply:
    return Reply(202)


@api.get("/fail/{how}", policy=None)
async def fail(call: Call[Harbour]) -> Reply:
    how = call.path["how"]
    if how == "quota":
        raise OverQuota("Quota exceeded for boats.")
    if how == "busy":
        raise Conflict("Another operation has the boat.", holder="saga-2")
    if how == "conflict":
        raise Conflict("The boat is at sea.", status=412)
    if how == "fog":
        raise Unavailable("No boat can leave.", private="the fog is thick")
    if how == "full":
        raise failures.full("no quay is free")
    raise RuntimeError("the secret is 42")


@api.get("/open", policy=None, open=True)
async def greet(call: Call[Harbour]) -> Reply:
    if "fog" in call.query:
        raise Unavailable("Nobody can be seen.")
    return Reply(200, {"user": call.who.user_id})


class Answer(Struct):
    status: int
    headers: list[tuple[str, str]]
    content: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.content)

    def header(self, name: str) -> str:
        return ", ".join(value for key, value in self.headers if key == name)


class Visitor:
    """Speaks ASGI to one application: `await visitor.get("/compute/v2.1/boats")`."""

    def __init__(
        self,
        face: Face = faces.COMPUTE,
        *,
        root: str = "http://cloud/compute",
        store: Store | None = None,
    ) -> None:
        self.harbour = Harbour(store)
        self.app = build_app(
            self.harbour,
            [api],
            face=replace(face, maximum=(2, 9)) if face is faces.COMPUTE else face,
            validator=Tokens(),
            policy=Policy(RULES),
            public_url=root,
            identity_url="http://cloud/identity/v3",
        )

    async def ask(
        self,
        method: str,
        target: str,
        *,
        who: str = "",
        content: bytes = b"",
        headers: dict[str, str] | None = None,
    ) -> Answer:
        path, _, query = target.partition("?")
        sent = {"x-auth-token": who} if who else {}
        if content:
            sent["content-type"] = "application/json"
        sent |= headers or {}
        scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
            "asgi": {"version": "3.0", "spec_version": "2.4"},
        }
        answer = Answer(0, [], b"")

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = [(k.decode(), v.decode()) for k, v in message["headers"]]
            else:
                answer.content += message.get("body", b"")

        await self.app(scope, receive, send)
        return answer

    async def get(self, target: str, *, who: str = "member", **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.ask("GET", target, who=who, headers=named)

    async def post(
        self, target: str, body: Any, *, who: str = "member", version: str = ""
    ) -> Answer:
        headers = {"openstack-api-version": f"compute {version}"} if version else {}
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return await self.ask("POST", target, who=who, content=content, headers=headers)
