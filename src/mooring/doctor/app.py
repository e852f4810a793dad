"""`/mooring/doctor`: the examination of a running cloud, by the cloud itself.

GET looks; POST first has the loops do now what they would do within a minute, and retries what is
stuck. For administrators alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from sqlalchemy import select
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mooring.doctor.examine import examine
from mooring.errors import MooringError
from mooring.saga.tables import SagaRow
from mooring.web import faults
from mooring.web.identity import TokenValidator, who_from_request

if TYPE_CHECKING:
    from sqlalchemy.orm import Session
    from starlette.types import ASGIApp, Receive, Scope, Send

    from mooring.agent_api.client import Agents
    from mooring.clock import Clock
    from mooring.config import Settings
    from mooring.saga.engine import Engine
    from mooring.store.base import Store
    from mooring.web.audit import AuditLog

PATH = "/mooring/doctor"


class Patient(Protocol):
    """A running cloud."""

    stores: Mapping[str, Store]
    engines: dict[str, Engine[Any]]

    @property
    def agents(self) -> Agents:
        """Its hosts."""
        ...

    @property
    def clock(self) -> Clock:
        """Its time."""
        ...

    @property
    def settings(self) -> Settings:
        """What its operator has chosen."""
        ...

    async def mend(self) -> None:
        """Do now what the loops do from time to time."""
        ...


def build(cloud: Patient, validator: TokenValidator, audit: AuditLog | None = None) -> ASGIApp:
    """Return the application. `audit` is told who had it mend, and what it retried."""

    async def answer(request: Request) -> Response:
        if request.url.path.rstrip("/") != PATH or request.method not in ("GET", "POST"):
            return _refusal(404, f"There is nothing at {request.url.path}.")
        who = await who_from_request(request.headers, validator, "")
        if not who.is_admin:
            return _refusal(403, "The doctor speaks to administrators only.")
        if request.method == "POST":
            await cloud.mend()
            retried = await _retry_stuck(cloud)
            if audit is not None:
                audit.note("mend", request, 200, who, retried=" ".join(retried))
        found = await examine(cloud.stores, cloud.agents, cloud.clock, cloud.settings)
        return JSONResponse({"findings": msgspec.to_builtins(found)})

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await answer(Request(scope, receive))
        except MooringError as error:
            response = _refusal(faults.code(error), error.public)
        await response(scope, receive, send)

    return application


async def _retry_stuck(cloud: Patient) -> list[str]:
    """Retry every stuck operation; return their ids."""
    every: list[str] = []

    def stuck(tx: Session) -> list[str]:
        query = select(SagaRow.id).where(SagaRow.stuck, SagaRow.state != "ended")
        return list(tx.execute(query).scalars())

    for name, engine in cloud.engines.items():
        store = cloud.stores[name]
        found = await store.read(stuck)
        retries = (
            store.write(lambda tx, it=saga_id, engine=engine: engine.retry(tx, it))
            for saga_id in found
        )
        await asyncio.gather(*retries)
        every += found
    return every


def _refusal(status: int, message: str) -> Response:
    return JSONResponse({"error": {"code": status, "message": message}}, status_code=status)
