"""A cloud of compute with the share service beside it: pools of NFS and of CephFS on its hosts."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from mooring.agent.settings import GuestShareSettings, MountSettings, Role, SharePoolSettings
from mooring.agent.share_drivers.simulated import SimulatedShares
from mooring.agent.share_mounts.simulated import SimulatedMounts
from mooring.agent_api.shares import Protocol
from mooring.clients.transport import Forward, Request, Response, deliver_once
from mooring.compute.app import SERVICE as COMPUTE
from mooring.compute.shares import share_places
from mooring.neighbour import NoAnswer
from mooring.placement.app import SERVICE as PLACEMENT
from mooring.share.app import SERVICE as SHARE
from mooring.volume.app import SERVICE as VOLUME
from tests.answers import Answer
from tests.compute.cloud import ComputeCloud
from tests.waiting import until

UNKNOWN = "99999999-9999-4999-8999-999999999999"
POOLS = (
    SharePoolSettings(driver="simulated", name="files", total_gib=100),
    SharePoolSettings(driver="simulated", name="ceph", protocol="CEPHFS", total_gib=100),
)


def at(address: str) -> MountSettings:
    """Return the settings of a host that mounts shares from an address."""
    return MountSettings(shares=GuestShareSettings(share_address=address))


class SharingCloud(ComputeCloud):
    """Its first host has the shares; every host has an address of its own."""

    version = "2.97"

    def __init__(self, directory: Path, *, hosts: Collection[str] = ("host1",), **how: Any) -> None:
        first, *others = hosts
        roles: dict[str, tuple[Role, ...]] = {first: ("compute", "volume", "share")}
        roles |= dict.fromkeys(others, ("compute", "volume"))
        services = (PLACEMENT, VOLUME, SHARE, COMPUTE)
        super().__init__(directory, hosts=hosts, roles=roles, services=services, **how)
        self.hosts[first] = replace(self.hosts[first], share_pools=POOLS)
        for number, name in enumerate(self.hosts, start=1):
            self.hosts[name] = replace(self.hosts[name], mounts=at(f"192.0.2.{number}"))

    def storage(self, pool: str = "files") -> SimulatedShares:
        """Return a pool's driver, with its knobs."""
        driver = next(iter(self.agents.values())).agent.share_drivers[pool]
        assert isinstance(driver, SimulatedShares)
        return driver

    def storages(self) -> list[SimulatedShares]:
        """Return the drivers of all hosts' pools."""
        drivers = [
            each for agent in self.agents.values() for each in agent.agent.share_drivers.values()
        ]
        return [driver for driver in drivers if isinstance(driver, SimulatedShares)]

    async def share_api(self, method: str, path: str, body: Any = None, **how: Any) -> Answer:
        """Ask the share service."""
        how = {"version": "2.82", **how}
        return await self.ask(method, f"/share/v2{path}", body, **how)

    async def make_share(self, protocol: str = "NFS", **fields: Any) -> str:
        """Make a share and wait for it; return its id."""
        user = fields.pop("user", "member")
        body = {"share": {"size": 1, "share_proto": protocol, **fields}}
        answer = await self.share_api("POST", "/shares", body, user=user)
        assert answer.status == 200, answer.text
        await self.settle()
        return answer.body["share"]["id"]

    async def rules(self, share_id: str) -> dict[str, str]:
        """Return the states of a share's access rules, by whom they let in."""
        answer = await self.share_api(
            "GET", f"/share-access-rules?share_id={share_id}", user="admin"
        )
        assert answer.status == 200, answer.text
        return {one["access_to"]: one["state"] for one in answer.body["access_list"]}

    async def until_rules(self, share_id: str, rules: dict[str, str]) -> None:
        """Return once a share's access rules have these states."""

        async def have_them() -> bool:
            return await self.rules(share_id) == rules

        await until(have_them, f"the rules of share {share_id} are {rules}")

    async def allow(self, share_id: str, to: str, **fields: Any) -> str:
        """Let a client in as a user does; return the rule's id once its fate is known."""
        value = {"access_type": "ip", "access_to": to, **fields}
        path = f"/shares/{share_id}/action"
        answer = await self.share_api("POST", path, {"allow_access": value})
        assert answer.status == 200, answer.text
        await self.settle()
        return answer.body["access"]["id"]

    async def deny_all(self, share_id: str) -> None:
        """Keep every client out, as an administrator does who passes over locks."""
        path = f"/share-access-rules?share_id={share_id}"
        for rule in (await self.share_api("GET", path, user="admin")).body["access_list"]:
            deny = {"deny_access": {"access_id": rule["id"], "unrestrict": True}}
            await self.share_api("POST", f"/shares/{share_id}/action", deny, user="admin")
        await self.settle()
        assert await self.rules(share_id) == {}

    async def make_stopped(self, **more: Any) -> str:
        """Make a server and stop it; return its id."""
        server_id = await self.make_server(**more)
        assert await self.act(server_id, "os-stop") == 202
        await self.settle()
        return server_id

    async def add_share(self, server_id: str, share_id: str, **how: Any) -> Answer:
        """Attach a share, with the fields of the body in `more`."""
        body = {"share": {"share_id": share_id, **how.pop("more", {})}}
        return await self.ask("POST", f"/servers/{server_id}/shares", body, **how)

    async def remove_share(self, server_id: str, share_id: str, **how: Any) -> Answer:
        """Detach a share."""
        return await self.ask("DELETE", f"/servers/{server_id}/shares/{share_id}", **how)

    async def make_shared(self, protocol: str = "NFS", **more: Any) -> tuple[str, str]:
        """Return the ids of a stopped server with a share, and of that."""
        if protocol == "NFS" and not more and (found := self.take_prepared()) is not None:
            return found
        server_id, share_id = await self.make_stopped(**more), await self.make_share(protocol)
        answer = await self.add_share(server_id, share_id)
        assert answer.status == 201, answer.text
        await self.settle()
        return server_id, share_id

    async def shares(self, server_id: str) -> dict[str, str]:
        """Return the status of each share that a server has, by its id."""
        answer = await self.ask("GET", f"/servers/{server_id}/shares")
        assert answer.status == 200, answer.text
        return {one["share_id"]: one["status"] for one in answer.body["shares"]}

    async def places(self) -> list[tuple[str, str, str]]:
        """Return server, host and state of each place that a share has."""
        rows = await self.compute.store.read(share_places.read_all)
        found = [(row["server_id"], one) for row in rows.values() for one in row["places"]]
        return sorted((server_id, one["host"], one["state"]) for server_id, one in found)

    async def mounts(self, host: str = "host1") -> list[tuple[str, str]]:
        """Return which servers a host has which shares mounted for."""
        inventory = await self.known_agents[host].inventory()
        return sorted((one.server_id, one.share_id) for one in inventory.share_mounts)

    async def guest_tags(self, server_id: str, host: str = "host1") -> list[str]:
        """Return the tags of the shares in a guest's definition."""
        guest = await self.known_agents[host].show_server(server_id)
        return [one.tag for one in guest.shares] if guest else []

    async def power(self, server_id: str, action: str, value: Any = None) -> dict[str, Any]:
        """Start, stop or reboot, and wait; return the server then."""
        assert await self.act(server_id, action, value) == 202
        await self.settle()
        return await self.server(server_id)

    def lose_share_service(self) -> None:
        """Let no call reach the share service from now on."""

        async def deliver(request: Request, forward: Forward) -> Response:
            if "/share/" in request.target:
                raise NoAnswer("the share service is away")
            return await forward(request)

        self.deliver = deliver

    def find_share_service(self) -> None:
        """Let calls reach it again."""
        self.deliver = deliver_once

    def refuse_denials(self) -> None:
        """Let the share service refuse to deny rules from now on, as for the locks of others."""

        async def deliver(request: Request, forward: Forward) -> Response:
            if isinstance(request.body, bytes) and b"deny_access" in request.body:
                fault = b'{"forbidden": {"code": 403, "message": "It is locked."}}'
                return Response(403, fault, {"content-type": "application/json"})
            return await forward(request)

        self.deliver = deliver

    def list_for_administrators(self, export: str) -> None:
        """Let the share service list an export of its own first, preferred, as Manila may."""
        own = {"id": UNKNOWN, "path": export, "preferred": True, "is_admin_only": True}
        self.tell("/export_locations", lambda told: {"export_locations": [own, *told.popitem()[1]]})

    def tell(self, path: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Let the share service answer otherwise where a path ends so, as Manila may."""

        async def deliver(request: Request, forward: Forward) -> Response:
            answer = await forward(request)
            if request.method != "GET" or not request.target.endswith(path):
                return answer
            content = json.dumps(change(json.loads(await answer.whole()))).encode()
            return Response(answer.status, content, {"content-type": "application/json"})

        self.deliver = deliver

    def mounter(self, host: str, protocol: Protocol) -> SimulatedMounts:
        """Return what mounts the shares of a protocol on a host, with its knobs."""
        found = self.agents[host].agent.guest_shares.mounters[protocol]
        assert isinstance(found, SimulatedMounts)
        return found
