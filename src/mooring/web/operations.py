"""`/mooring/operations` of each service: what its sagas do, and an operator's word in it.

Ours alone, beside the OpenStack API: for `mooring operations` and for whoever watches a cloud. And
for services: whoever has done what an operation of another one waits for wakes it.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import msgspec

from mooring.agent_api.client import Agents
from mooring.errors import Forbidden
from mooring.saga import journal, operations
from mooring.saga.engine import Engine
from mooring.store.base import Store
from mooring.web.api import Api, Call, Reply
from mooring.web.identity import is_service


class HasSagas(Protocol):
    """A service whose work is done by sagas."""

    sagas: Engine[Any]
    agents: Agents

    @property
    def store(self) -> Store:
        """The service's own database."""
        ...


S = TypeVar("S", bound=HasSagas)


def build_api(kind: type[S]) -> Api[S]:
    """Return the routes, for one kind of service. All but `wake` are for administrators alone."""
    del kind
    api = Api[S]()

    @api.get("/mooring/operations", policy=None)
    async def list_operations(call: Call[S]) -> Reply:
        _require_admin(call)
        everything = call.query.get("all", "") == "true"
        service = call.service
        found = await service.store.read(
            lambda tx: operations.list_operations(tx, service.sagas, everything=everything)
        )
        silent = service.agents.doors.tell_silent()
        return Reply(200, {"operations": msgspec.to_builtins(found), "silent_hosts": silent})

    @api.get("/mooring/operations/{saga_id}", policy=None)
    async def show_operation(call: Call[S]) -> Reply:
        _require_admin(call)
        service, saga_id = call.service, call.path["saga_id"]
        found = await service.store.read(
            lambda tx: operations.show_operation(tx, service.sagas, saga_id)
        )
        return Reply(200, msgspec.to_builtins(found))

    @api.action("/mooring/operations/{saga_id}/action", "abort", policy=None)
    async def abort(call: Call[S], _: None) -> Reply:
        _require_admin(call)
        service, saga_id = call.service, call.path["saga_id"]
        await service.store.write(lambda tx: service.sagas.abort(tx, saga_id, insists=True))
        return Reply(202)

    @api.action("/mooring/operations/{saga_id}/action", "retry", policy=None)
    async def retry(call: Call[S], _: None) -> Reply:
        _require_admin(call)
        service, saga_id = call.service, call.path["saga_id"]
        await service.store.write(lambda tx: service.sagas.retry(tx, saga_id))
        return Reply(202)

    _let_services_wake(api)
    return api


def _let_services_wake(api: Api[S]) -> None:
    @api.action("/mooring/operations/{saga_id}/action", "wake", policy=None)
    async def wake(call: Call[S], _: None) -> Reply:
        if not is_service(call.who):
            raise Forbidden("Only a service may wake an operation.")
        service, name = call.service, journal.word_for(call.path["saga_id"])
        await service.store.write(lambda tx: service.sagas.signal(tx, name))
        return Reply(202)


def _require_admin(call: Call[Any]) -> None:
    if not call.who.is_admin:
        raise Forbidden("Operations are shown to administrators only.")
