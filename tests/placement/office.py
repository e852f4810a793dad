"""A placement service on a temporary database, and a visitor that speaks HTTP to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import httpx2

from mooring.clients.placement import PlacementClient
from mooring.clients.transport import Network
from mooring.clock import SimulatedClock
from mooring.placement.app import SERVICE
from mooring.placement.service import Placement
from mooring.store.base import Store
from tests.callers import Tokens, session

URL = "http://cloud/placement"
PROJECT, USER = str(uuid4()), str(uuid4())


class Office:
    """The service and everything to talk to it with."""

    def __init__(self, store: Store) -> None:
        self.clock = SimulatedClock()
        self.placement = Placement(store=store, clock=self.clock)
        self.app = SERVICE.build(self.placement, validator=Tokens(), public_url=URL)
        self.network = Network()
        self.network.serve(URL, self.app)
        # No bound of its own: a machine that has more to do answers late.
        self.http = httpx2.AsyncClient(transport=self.network, timeout=None)
        self.client = PlacementClient(session(self.network, "placement", URL))

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        version: str = "1.39",
        who: str = "volume",
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        sent = {"X-Auth-Token": who, **(headers or {})} if who else dict(headers or {})
        if version:
            sent["OpenStack-API-Version"] = f"placement {version}"
        return await self.http.request(method, URL + path, json=body, headers=sent)

    async def provider(self, name: str = "host1", **inventories: Mapping[str, Any]) -> str:
        """Make a provider with these inventories; return its id."""
        uuid = str(uuid4())
        answer = await self.ask("POST", "/resource_providers", {"name": name, "uuid": uuid})
        assert answer.status_code == 200, answer.text
        if inventories:
            body = {"resource_provider_generation": 0, "inventories": inventories}
            answer = await self.ask("PUT", f"/resource_providers/{uuid}/inventories", body)
            assert answer.status_code == 200, answer.text
        return uuid

    async def claim(
        self,
        consumer: str,
        given: Mapping[str, Mapping[str, int]],
        *,
        generation: int | None = None,
        version: str = "1.36",
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        body = claim_body(given, generation=generation)
        path = f"/allocations/{consumer}"
        return await self.ask("PUT", path, body, version=version, headers=headers)

    async def used(self, uuid: str) -> dict[str, int]:
        answer = await self.ask("GET", f"/resource_providers/{uuid}/usages")
        return answer.json()["usages"]

    async def generation(self, uuid: str) -> int:
        return (await self.ask("GET", f"/resource_providers/{uuid}")).json()["generation"]


def claim_body(
    given: Mapping[str, Mapping[str, int]], *, generation: int | None = None
) -> dict[str, Any]:
    return {
        "allocations": {uuid: {"resources": dict(amounts)} for uuid, amounts in given.items()},
        "project_id": PROJECT,
        "user_id": USER,
        "consumer_generation": generation,
    }


def error_of(answer: httpx2.Response) -> tuple[int, str, str]:
    """Return status, code and detail of a fault."""
    (error,) = answer.json()["errors"]
    assert error["status"] == answer.status_code
    assert error["request_id"] == answer.headers["x-openstack-request-id"]
    return answer.status_code, error.get("code", ""), error["detail"]
