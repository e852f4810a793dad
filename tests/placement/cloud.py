"""A cloud of the placement service alone, and a visitor that speaks HTTP to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from mooring.clients.placement import PlacementClient
from mooring.placement.app import SERVICE
from tests.answers import Answer
from tests.callers import session
from tests.cloud import URL, SimulatedCloud

PROJECT, USER = str(uuid4()), str(uuid4())


class PlacementCloud(SimulatedCloud):
    """The service and everything to talk to it with."""

    root, user, version = "/placement", "volume", "1.39"

    def __init__(self, directory: Path | str, **how: Any) -> None:
        super().__init__(directory, services=(SERVICE,), hosts=(), **how)

    async def open_control(self) -> None:
        await super().open_control()
        self.client = PlacementClient(session(self.network, "placement", f"{URL}/placement"))

    async def provider(self, name: str = "host1", **inventories: Mapping[str, Any]) -> str:
        """Make a provider with these inventories; return its id."""
        uuid = str(uuid4())
        answer = await self.ask("POST", "/resource_providers", {"name": name, "uuid": uuid})
        assert answer.status == 200, answer.text
        if inventories:
            body = {"resource_provider_generation": 0, "inventories": inventories}
            answer = await self.ask("PUT", f"/resource_providers/{uuid}/inventories", body)
            assert answer.status == 200, answer.text
        return uuid

    async def claim(
        self,
        consumer: str,
        given: Mapping[str, Mapping[str, int]],
        *,
        generation: int | None = None,
        version: str = "1.36",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        body = claim_body(given, generation=generation)
        path = f"/allocations/{consumer}"
        return await self.ask("PUT", path, body, version=version, headers=headers)

    async def used(self, uuid: str) -> dict[str, int]:
        answer = await self.ask("GET", f"/resource_providers/{uuid}/usages")
        return answer.body["usages"]

    async def generation(self, uuid: str) -> int:
        return (await self.ask("GET", f"/resource_providers/{uuid}")).body["generation"]


def claim_body(
    given: Mapping[str, Mapping[str, int]], *, generation: int | None = None
) -> dict[str, Any]:
    return {
        "allocations": {uuid: {"resources": dict(amounts)} for uuid, amounts in given.items()},
        "project_id": PROJECT,
        "user_id": USER,
        "consumer_generation": generation,
    }


def error_of(answer: Answer) -> tuple[int, str, str]:
    """Return status, code and detail of a fault."""
    (error,) = answer.body["errors"]
    assert error["status"] == answer.status
    assert error["request_id"] == answer.headers["x-openstack-request-id"]
    return answer.status, error.get("code", ""), error["detail"]
