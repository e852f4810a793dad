"""Processes of the control plane that are stopped, succeeded by another one, and wake late."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from types import FunctionType
from typing import Any, TypeVar

from mooring.agent_api.transport import Forward, Request, Response
from mooring.clients import transport as services
from mooring.store.base import Store
from tests.cloud import SimulatedCloud
from tests.postgres import end_leases

T = TypeVar("T")


class Slumber:
    """The sleep of the process that a cloud has now; once in it, another one may take its place."""

    def __init__(self, cloud: SimulatedCloud) -> None:
        self._cloud = cloud
        self.has_come, self.is_over = asyncio.Event(), asyncio.Event()

    async def fall(self) -> None:
        """Sleep until `end`; only the first who comes here does."""
        if not self.has_come.is_set():
            self.has_come.set()
            await self.is_over.wait()

    async def succeed(self) -> None:
        """Let another process take over, and go on with everything to its end."""
        await self.has_come.wait()
        if database := self._cloud.settings.database:
            await asyncio.to_thread(end_leases, database, list(self._cloud.cloud.engines))
        await self._cloud.take_over()
        await self._cloud.settle()

    def rouse(self) -> None:
        """Let the sleeper go on."""
        self._cloud.wake()
        self.is_over.set()

    async def end(self) -> None:
        """Let the sleeper go on, until everything has come to rest."""
        self.rouse()
        await self._cloud.settle()


class SlumberAfterCall(Slumber):
    """Comes once a host has done the first such call, before its answer is read."""

    def __init__(self, cloud: SimulatedCloud, method: str, path: str = "") -> None:
        super().__init__(cloud)
        self._method, self._path = method, path
        cloud.deliver_to_host = self._deliver

    async def _deliver(self, request: Request, forward: Forward) -> Response:
        response = await forward(request)
        if request.method == self._method and self._path in request.target:
            await self.fall()
        return response


class SlumberAtService(Slumber):
    """Comes at the first such call to a service: before it is sent, or once it is `answered`."""

    def __init__(
        self, cloud: SimulatedCloud, method: str, ending: str, *, answered: bool = False
    ) -> None:
        super().__init__(cloud)
        self._call, self._answered, self._deliver_now = (method, ending), answered, cloud.deliver
        cloud.deliver = self._deliver

    async def _deliver(self, request: services.Request, forward: services.Forward) -> Any:
        is_it = request.method == self._call[0] and request.target.endswith(self._call[1])
        if is_it and not self._answered:
            await self.fall()
        response = await self._deliver_now(request, forward)
        if is_it and self._answered:
            await self.fall()
        return response


class SlumberBeforeWrite(Slumber):
    """Comes right before the first transaction of a service that calls a function of that name."""

    def __init__(self, cloud: SimulatedCloud, service: str, name: str) -> None:
        super().__init__(cloud)
        sleep_before_write(cloud.cloud.stores[service], name, self.fall)


def sleep_before_write(store: Store, name: str, fall: Callable[[], Awaitable[None]]) -> None:
    """Have `fall` awaited before each transaction that calls a function of that name."""
    write = store.write

    async def write_late(fn: Callable[[Any], T]) -> T:
        if name in _names(fn):
            await fall()
        return await write(fn)

    store.write = write_late


def _names(fn: Callable[[Any], Any]) -> tuple[str, ...]:
    """The name of a function, and of all that it names."""
    whole = fn.func if isinstance(fn, partial) else fn
    return (whole.__name__, *whole.__code__.co_names) if isinstance(whole, FunctionType) else ()
