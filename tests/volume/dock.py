"""A volume service with a simulated host behind it, and clients that speak ASGI to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct
from sqlalchemy import func, select

from mooring.agent.app import RunningAgent, open_agent
from mooring.agent.drivers.simulated import SimulatedDriver
from mooring.agent.settings import AgentSettings, PoolSettings
from mooring.agent_api.client import Agents
from mooring.clients.compute import ComputeClient, VolumeAttachment
from mooring.clients.image import Image, ImageClient
from mooring.clients.session import Caller, Session
from mooring.clients.token import TokenInfo
from mooring.clock import SimulatedClock
from mooring.errors import MooringError, NotFound, Unauthenticated
from mooring.fence.operation import HEADER, Operation
from mooring.probe import NoProbe, Probe
from mooring.saga.engine import Engine
from mooring.saga.seal import Sealer
from mooring.saga.tables import LockRow, SagaRow
from mooring.store.base import Store
from mooring.volume.app import SERVICE
from mooring.volume.backends.loops.watch_pools import look_once
from mooring.volume.service import Volume, VolumeSettings
from mooring.volume.tables import AttachmentRow, VolumeRow
from mooring.volume.volumes import statuses
from tests.migrated import open_store

T = TypeVar("T")

PROJECT = "0123456789abcdef0123456789abcdef"
OTHER = "fedcba9876543210fedcba9876543210"
SERVER = "11111111-1111-4111-8111-111111111111"
SERVER_2 = "22222222-2222-4222-8222-222222222222"
UNKNOWN = "99999999-9999-4999-8999-999999999999"
IMAGE = "33333333-3333-4333-8333-333333333333"
FAR = datetime(2100, 1, 1, tzinfo=UTC)
NOBODY = cast("Session", None)


class Compute(ComputeClient):
    """A compute service that lists what the test says."""

    def __init__(self) -> None:
        super().__init__(NOBODY)
        self.listed: dict[tuple[str, str], str] = {}
        self.failure: MooringError | None = None
        self.asked, self.woken = 0, list[str]()
        self.meanwhile: Callable[[], Awaitable[Any]] | None = None
        """What happens while it is being asked."""

    async def show_volume_attachment(
        self, caller: Caller, server_id: str, volume_id: str
    ) -> VolumeAttachment:
        self.asked += 1
        if self.meanwhile is not None:
            await self.meanwhile()
        if self.failure is not None:
            raise self.failure
        if (server_id, volume_id) not in self.listed:
            raise NotFound("Instance could not be found.")
        attachment_id = self.listed[server_id, volume_id]
        return VolumeAttachment(
            server_id=server_id, volume_id=volume_id, attachment_id=attachment_id
        )

    async def wake(self, operation_id: str, *, timeout_s: float) -> None:
        self.woken.append(operation_id)


class Images(ImageClient):
    """An image service that knows what the test says."""

    def __init__(self) -> None:
        super().__init__(NOBODY)
        self.content = bytes(1024 * 1024)
        size = len(self.content)
        known = Image(
            id=IMAGE,
            status="active",
            name="cirros",
            disk_format="raw",
            container_format="bare",
            size_bytes=size,
            properties={"hw_disk_bus": "virtio"},
        )
        self.known = {IMAGE: known}
        self.downloads = 0

    async def show(self, caller: Caller, image_id: str) -> Image:
        if image_id not in self.known:
            raise NotFound(f"Image {image_id} could not be found.")
        return self.known[image_id]

    @asynccontextmanager
    async def download(
        self, caller: Caller, image_id: str
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        self.downloads += 1
        yield self._chunks()

    async def _chunks(self) -> AsyncIterator[bytes]:
        yield self.content


class Tokens:
    """A validator that knows a few tokens by name."""

    async def validate(self, token: str, *, allow_expired: bool = False) -> TokenInfo:
        roles = {
            "reader": {"reader"},
            "member": {"member", "reader"},
            "stranger": {"member", "reader"},
            "admin": {"admin", "manager", "member", "reader"},
            "compute": {"admin", "service", "member", "reader"},
            "service": {"service"},
        }
        if token not in roles:
            raise Unauthenticated("The request you have made requires authentication.")
        project_id = OTHER if token in ("stranger", "service") else PROJECT
        named = frozenset(roles[token])
        return TokenInfo(user_id=token, project_id=project_id, roles=named, expires_at=FAR)


class Answer(Struct):
    """What came back."""

    status: int = 0
    headers: dict[str, str] = {}
    content: bytes = b""

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.content)

    @property
    def fault(self) -> str:
        """The message of the one fault in the body."""
        (body,) = self.json.values()
        return body["message"]


class Dock:
    """The service, its host, and whoever asks it. `restart` lets all of it die and start again."""

    def __init__(self, location: Path, probe: Probe | None = None, database: str = "") -> None:
        self.location, self.probe = location, probe or NoProbe()
        self.database = database or str(location / "databases")
        self.clock, self.compute, self.images = SimulatedClock(), Compute(), Images()
        self.settings = VolumeSettings()
        self.pools = (PoolSettings(driver="simulated", name="fast"),)
        self.count = 0

    async def open(self) -> None:
        self.stack, self.count = AsyncExitStack(), self.count + 1
        settings = AgentSettings(
            name="host1",
            state_dir=self.location / "agent",
            hypervisor="simulated",
            roles=("compute", "volume"),
            pools=self.pools,
        )
        (self.location / "databases").mkdir(parents=True, exist_ok=True)
        self.agent: RunningAgent = await self.stack.enter_async_context(open_agent(settings))
        self.store: Store = await open_store(self.database, "volume", probe=self.probe)
        self.agents = Agents(self.clock)
        self.agents.in_process("host1", self.agent.app)
        sealer = Sealer(b"k" * 32)
        self.volume = Volume(
            store=self.store,
            images=self.images,
            compute=self.compute,
            agents=self.agents,
            sealer=sealer,
            clock=self.clock,
            settings=self.settings,
        )
        self.engine = self.volume.sagas = Engine(
            "volume",
            self.volume,
            self.store,
            clock=self.clock,
            random=Random(1),
            probe=self.probe,
            sealer=sealer,
            owner=f"dock-{self.count}",
        )
        self.app = SERVICE.build(self.volume, validator=Tokens(), public_url="http://cloud/volume")
        await SERVICE.prepare(self.volume)
        await look_once(self.volume)
        await self.engine.open()

    async def close(self) -> None:
        await self.engine.stop()
        await self.store.close()
        await self.stack.aclose()

    async def restart(self) -> None:
        await self.close()
        await self.open()

    @property
    def storage(self) -> SimulatedDriver:
        driver = self.agent.agent.drivers["fast"]
        assert isinstance(driver, SimulatedDriver)
        return driver

    async def ask(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        who: str = "member",
        version: str = "3.67",
        operation: Operation | None = None,
        service: str = "",
    ) -> Answer:
        """Send one request; `target` is relative to /v3."""
        headers = {"x-auth-token": who, "openstack-api-version": f"volume {version}"}
        if service:
            headers["x-service-token"] = service
        if operation is not None:
            headers[HEADER] = str(operation)
        content = b"" if body is None else msgspec.json.encode(body)
        if content:
            headers["content-type"] = "application/json"
        return await self._send(method, target, headers, content)

    async def _send(
        self, method: str, target: str, headers: dict[str, str], content: bytes
    ) -> Answer:
        path, _, query = target.partition("?")
        scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "path": f"/volume/v3{path}",
            "raw_path": f"/volume/v3{path}".encode(),
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "asgi": {"version": "3.0", "spec_version": "2.4"},
        }
        answer = Answer()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {k.decode(): v.decode() for k, v in message["headers"]}
            else:
                answer.content += message.get("body", b"")

        await self.app(scope, receive, send)
        return answer

    async def drive(self, request: Coroutine[Any, Any, T], *, turn_s: float = 7200.0) -> T:
        """Turn the clock, by `turn_s` at once, until a request is answered.

        A request waits a minute at most: where something is tried again all the time, only small
        turns leave it the time to be answered. Raises what a dying process leaves: Crash.
        """
        task = asyncio.create_task(request)
        try:
            while not task.done():
                await asyncio.wait([task], timeout=0.01)
                await self.engine.settle(turn_s)
            return await task
        finally:
            task.cancel()

    async def until_pre_empted(self) -> None:
        """Return once one that is at work was told to end for another."""
        told = select(SagaRow.id).where(SagaRow.state != "ended", SagaRow.abort != 0)
        while await self.store.read(lambda tx: tx.scalar(told)) is None:
            pass

    async def make(self, *, size: int = 1, who: str = "member", **fields: Any) -> str:
        """Make a volume and return its id once its fate is known."""
        answer = await self.ask("POST", "/volumes", {"volume": {"size": size, **fields}}, who=who)
        assert answer.status == 202, answer.content
        await self.engine.settle()
        return answer.json["volume"]["id"]

    async def show(self, volume_id: str, *, who: str = "admin", version: str = "3.67") -> Any:
        answer = await self.ask("GET", f"/volumes/{volume_id}", who=who, version=version)
        assert answer.status == 200, answer.content
        return answer.json["volume"]

    async def status(self, volume_id: str) -> str:
        return (await self.show(volume_id))["status"]

    async def attachments(self, volume_id: str) -> dict[str, str]:
        """Return the status of each attachment of a volume, by id."""
        answer = await self.ask(
            "GET", f"/attachments?volume_id={volume_id}&all_tenants=1", who="admin"
        )
        return {row["id"]: row["status"] for row in answer.json["attachments"]}

    async def reserve(
        self, volume_id: str, server_id: str = SERVER, *, who: str = "compute", **more: Any
    ) -> Answer:
        body = {"volume_uuid": volume_id, "instance_uuid": server_id, **more}
        return await self.ask("POST", "/attachments", {"attachment": body}, who=who)

    async def connect(
        self, attachment_id: str, host: str = "host1", *, who: str = "compute", **more: Any
    ) -> Answer:
        body = {"attachment": {"connector": connector(host)}}
        return await self.ask("PUT", f"/attachments/{attachment_id}", body, who=who, **more)

    async def complete(self, attachment_id: str) -> Answer:
        path = f"/attachments/{attachment_id}/action"
        return await self.ask("POST", path, {"os-complete": None}, who="compute")

    async def detach(self, attachment_id: str, *, who: str = "compute", **more: Any) -> Answer:
        return await self.ask("DELETE", f"/attachments/{attachment_id}", who=who, **more)

    async def attach(self, volume_id: str, server_id: str = SERVER) -> str:
        """Attach in the new flow, whole, and let compute list it."""
        attachment_id: str = (await self.reserve(volume_id, server_id)).json["attachment"]["id"]
        assert (await self.connect(attachment_id)).status == 200
        assert (await self.complete(attachment_id)).status == 204
        self.compute.listed[server_id, volume_id] = attachment_id
        return attachment_id

    async def act(self, volume_id: str, action: str, value: Any = None, **more: Any) -> Answer:
        return await self.ask("POST", f"/volumes/{volume_id}/action", {action: value}, **more)

    async def set(self, volume_id: str, **columns: Any) -> None:
        """Bring a volume into a state that other services' work would."""

        def change(tx: Any) -> None:
            row = tx.get_one(VolumeRow, volume_id)
            for name, value in columns.items():
                setattr(row, name, value)

        await self.store.write(change)

    async def type_with(self, **specs: str) -> str:
        """Make a volume type with extra specs and return its name."""
        name = "type-" + "-".join(specs)
        body = {"volume_type": {"name": name, "extra_specs": specs}}
        answer = await self.ask("POST", "/types", body, who="admin")
        assert answer.status == 200, answer.content
        return name

    async def exports(self) -> set[tuple[str, str]]:
        """Return (volume, attachment) of each export that the storage has open."""
        found = [(volume.volume_id, volume.exports) for volume in await self.storage.volumes()]
        return {(volume_id, export) for volume_id, exports in found for export in exports}

    async def complaints(self) -> list[str]:
        """Return what rests, is held, or is in a transitional status without an owner."""

        def look(tx: Any) -> list[str]:
            query = select(SagaRow.name, SagaRow.step).where(SagaRow.state != "ended")
            found = [f"saga {name} rests at {step}" for name, step in tx.execute(query)]
            found += [f"lock {key} is held" for key in tx.execute(select(LockRow.key)).scalars()]
            owned = select(VolumeRow.id, VolumeRow.status, VolumeRow.borrowed_by)
            for volume_id, status, owner in tx.execute(owned):
                transitional = status in (*statuses.OWNED, *statuses.BORROWED)
                if transitional and not owner:
                    found.append(f"volume {volume_id} is {status} and nobody's")
            marked = select(AttachmentRow.id).where(AttachmentRow.saga_id != "")
            found += [f"attachment {row} is marked" for row in tx.execute(marked).scalars()]
            return found

        return await self.store.read(look)

    async def count_volumes(self) -> int:
        query = select(func.count()).select_from(VolumeRow)
        return await self.store.read(lambda tx: tx.execute(query).scalar_one())


def connector(host: str = "host1") -> dict[str, Any]:
    """Return what a host says of itself."""
    return {"host": host, "ip": "127.0.0.1", "platform": "x86_64", "os_type": "linux"}
