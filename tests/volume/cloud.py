"""A cloud of the volume service alone, with an image shelf and a compute service of the test's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

from msgspec.structs import replace
from sqlalchemy import func, select

from mooring.agent.drivers.simulated import SimulatedDriver
from mooring.agent.settings import PoolSettings
from mooring.agent_api.transport import Forward, Request, Response
from mooring.clients.compute import ComputeClient, VolumeAttachment
from mooring.clients.session import Caller, Session
from mooring.errors import MooringError, NotFound, Unavailable
from mooring.saga.tables import LockRow, SagaRow
from mooring.service import Surroundings
from mooring.volume.app import SERVICE
from mooring.volume.service import Volume
from mooring.volume.tables import AttachmentRow, VolumeRow
from mooring.volume.volumes import statuses
from tests.answers import Answer
from tests.cloud import SimulatedCloud
from tests.image_shelf import ImageShelf
from tests.waiting import until

T = TypeVar("T")

SERVER = "11111111-1111-4111-8111-111111111111"
SERVER_2 = "22222222-2222-4222-8222-222222222222"
UNKNOWN = "99999999-9999-4999-8999-999999999999"
IMAGE = "33333333-3333-4333-8333-333333333333"
NOBODY = cast("Session", None)


class Compute(ComputeClient):
    """A compute service that lists what the test says."""

    def __init__(self) -> None:
        super().__init__(NOBODY)
        self.listed: dict[tuple[str, str], str] = {}
        self.failure: MooringError | None = None
        self.lost = set[str]()
        """Servers that it cannot tell of."""
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
        if server_id in self.lost:
            raise Unavailable("Nobody can tell of that server now.")
        if (server_id, volume_id) not in self.listed:
            raise NotFound("Instance could not be found.")
        attachment_id = self.listed[server_id, volume_id]
        return VolumeAttachment(
            server_id=server_id, volume_id=volume_id, attachment_id=attachment_id
        )

    async def wake(self, operation_id: str, *, timeout_s: float) -> None:
        self.woken.append(operation_id)


class VolumeCloud(SimulatedCloud):
    """The service, its host `host1` with the pool `fast`, and whoever asks it."""

    root, user, version = "/volume/v3", "member", "3.67"

    def __init__(self, directory: Path, **how: Any) -> None:
        self.compute, self.shelf = Compute(), ImageShelf()
        self.neighbour: ComputeClient = self.compute
        """Whom the service asks when it asks compute."""
        self.shelf.put(IMAGE, bytes(1024 * 1024), name="cirros", hw_disk_bus="virtio")
        super().__init__(
            directory,
            services=(replace(SERVICE, open=self._open_volume),),
            stand_ins={"image": self.shelf},
            hosts=("host1",),
            inline=True,
            **how,
        )
        pool = PoolSettings(driver="simulated", name="fast")
        self.hosts["host1"] = replace(self.hosts["host1"], pools=(pool,))

    def _open_volume(self, near: Surroundings) -> Volume:
        volume = SERVICE.open(near)
        volume.compute = self.neighbour
        return volume

    async def open_control(self) -> None:
        await super().open_control()
        self.volume: Volume = self.cloud[SERVICE]
        self.engine, self.store = self.volume.sagas, self.volume.store

    @property
    def storage(self) -> SimulatedDriver:
        driver = self.agents["host1"].agent.drivers["fast"]
        assert isinstance(driver, SimulatedDriver)
        return driver

    @contextmanager
    def silence(self) -> Generator[None]:
        """Let the host answer nothing while the block runs."""
        deliver = self.deliver_to_host

        async def say_nothing(request: Request, forward: Forward) -> Response:
            del request, forward
            raise Unavailable("The agent gave no answer.")

        self.deliver_to_host = say_nothing
        try:
            yield
        finally:
            self.deliver_to_host = deliver

    async def drive(self, asking: Coroutine[Any, Any, T], *, turn_s: float = 7200.0) -> T:
        """Turn the clock, by `turn_s` at once, until a request is answered.

        A request waits a minute at most: where something is tried again all the time, only small
        turns leave it the time to be answered.
        """
        task = asyncio.create_task(asking)
        while not task.done():
            await asyncio.wait([task], timeout=0.01)
            await self.settle(turn_s)
        return await task

    async def until_pre_empted(self) -> None:
        """Return once one that is at work was told to end for another."""
        told = select(SagaRow.id).where(SagaRow.state != "ended", SagaRow.abort != 0)

        async def is_told() -> bool:
            return await self.store.read(lambda tx: tx.scalar(told)) is not None

        await until(is_told, "one that is at work is told to end")

    async def until_waiting(self, name: str) -> None:
        """Return once an operation of that name waits for its locks."""
        waits = select(SagaRow.id).where(SagaRow.name == name, SagaRow.state == "locked")

        async def is_waiting() -> bool:
            return await self.store.read(lambda tx: tx.scalar(waits)) is not None

        await until(is_waiting, f"{name} waits for its locks")

    async def make(self, *, size: int = 1, user: str = "member", **fields: Any) -> str:
        """Make a volume and return its id once its fate is known."""
        answer = await self.ask("POST", "/volumes", {"volume": {"size": size, **fields}}, user=user)
        assert answer.status == 202, answer.content
        await self.settle()
        return answer.body["volume"]["id"]

    async def show(self, volume_id: str, *, user: str = "admin", version: str = "3.67") -> Any:
        answer = await self.ask("GET", f"/volumes/{volume_id}", user=user, version=version)
        assert answer.status == 200, answer.content
        return answer.body["volume"]

    async def status(self, volume_id: str) -> str:
        return (await self.show(volume_id))["status"]

    async def attachments(self, volume_id: str) -> dict[str, str]:
        """Return the status of each attachment of a volume, by id."""
        answer = await self.ask(
            "GET", f"/attachments?volume_id={volume_id}&all_tenants=1", user="admin"
        )
        return {row["id"]: row["status"] for row in answer.body["attachments"]}

    async def reserve(
        self, volume_id: str, server_id: str = SERVER, *, user: str = "compute", **more: Any
    ) -> Answer:
        body = {"volume_uuid": volume_id, "instance_uuid": server_id, **more}
        return await self.ask("POST", "/attachments", {"attachment": body}, user=user)

    async def connect(
        self, attachment_id: str, host: str = "host1", *, user: str = "compute", **more: Any
    ) -> Answer:
        body = {"attachment": {"connector": connector(host)}}
        return await self.ask("PUT", f"/attachments/{attachment_id}", body, user=user, **more)

    async def complete(self, attachment_id: str) -> Answer:
        path = f"/attachments/{attachment_id}/action"
        return await self.ask("POST", path, {"os-complete": None}, user="compute")

    async def detach(self, attachment_id: str, *, user: str = "compute", **more: Any) -> Answer:
        return await self.ask("DELETE", f"/attachments/{attachment_id}", user=user, **more)

    async def attach(self, volume_id: str, server_id: str = SERVER) -> str:
        """Attach in the new flow, whole, and let compute list it."""
        attachment_id: str = (await self.reserve(volume_id, server_id)).body["attachment"]["id"]
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
        answer = await self.ask("POST", "/types", body, user="admin")
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
