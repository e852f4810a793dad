"""A server with shares on one of several hosts, and what tests of its moves see of them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from mooring.agent_api import transport as hosts
from mooring.agent_api import wire
from mooring.agent_api.guest_shares import MountRequest
from mooring.clients.share import NewRule
from mooring.clients.transport import Forward, Request, Response
from mooring.compute.shares import access_rules
from mooring.errors import Conflict, Forbidden, MooringError, Unavailable
from mooring.neighbour import NoAnswer
from tests.answers import Answer
from tests.compute.sharing import SharingCloud
from tests.kept import Keeper

_HOSTS = "/os-services?binary=nova-compute"

HOSTS = ("host1", "host2")
NEW, OLD = "2.106", "2.105"
STRANGER = "99999999-9999-4999-8999-999999999999"


class Seen(Struct, frozen=True):
    """What hosts and share service have of one server's shares, one entry for each share.

    rules    the hosts that are let in
    mounts   the hosts that have it mounted for the server
    guests   the hosts whose guest has it
    """

    rules: list[set[str]]
    mounts: list[set[str]]
    guests: list[set[str]]


class Sharing(Struct):
    """The server, its shares, and the two hosts: where it is, and where it is to go."""

    cloud: SharingCloud
    server_id: str
    shares: list[str]
    source: str
    destination: str

    async def ask(self, action: str, value: Any = None, *, version: str = NEW) -> Answer:
        """Ask for an action as an administrator and let everything come to rest."""
        answer = await self.begin(action, value, version=version)
        await self.cloud.settle()
        return answer

    async def begin(self, action: str, value: Any = None, *, version: str = NEW) -> Answer:
        """Ask for an action, and wait for nothing but its answer."""
        path, body = f"/servers/{self.server_id}/action", {action: value}
        return await self.cloud.ask("POST", path, body, user="admin", version=version)

    async def act(self, action: str, value: Any = None, **how: Any) -> None:
        """Ask for an action that must be accepted."""
        answer = await self.ask(action, value, **how)
        assert answer.status in {202, 204}, answer.text

    async def show(self) -> dict[str, Any]:
        """Return the server."""
        return await self.cloud.server(self.server_id)

    async def status(self) -> str:
        """Return the server's status."""
        return (await self.show())["status"]

    async def host(self) -> str:
        """Return where the server says it is."""
        return (await self.show())["OS-EXT-SRV-ATTR:host"]

    async def mappings(self) -> dict[str, str]:
        """Return the status of each share that the server has."""
        answer = await self.cloud.ask("GET", f"/servers/{self.server_id}/shares", version=NEW)
        return {one["share_id"]: one["status"] for one in answer.body["shares"]}

    async def see(self) -> Seen:
        """Return who has what."""
        rules = [await self.rules(share) for share in self.shares]
        mounts: list[set[str]] = [set() for _ in self.shares]
        guests: list[set[str]] = [set() for _ in self.shares]
        for host in self.cloud.hosts:
            inventory = await self.cloud.known_agents[host].inventory()
            there = {
                one.share_id
                for one in inventory.share_mounts
                if one.server_id == self.server_id and one.mounted
            }
            guest = await self.cloud.known_agents[host].show_server(self.server_id)
            having = {one.share_id for one in guest.shares} if guest else set[str]()
            for number, share in enumerate(self.shares):
                mounts[number] |= {host} if share in there else set()
                guests[number] |= {host} if share in having else set()
        return Seen(rules, mounts, guests)

    async def rules(self, share: str) -> set[str]:
        """Return the hosts that are let in to a share; a client that is no host by its name."""
        names = {await address_of(self.cloud, host): host for host in self.cloud.hosts}
        path = f"/share/v2/share-access-rules?share_id={share}"
        answer = await self.cloud.ask("GET", path, user="admin", version="2.82")
        clients: list[str] = [one["access_to"] for one in answer.body["access_list"]]
        assert len(clients) == len(set(clients))
        return {names.get(client, client) for client in clients}

    async def has(self, *, rules: str, mounts: str, guest: str) -> None:
        """See that each share is so; hosts are s (source) and d (destination)."""
        count = len(self.shares)
        sets = ({self.named(one) for one in each} for each in (rules, mounts, guest))
        assert await self.see() == Seen(*([one] * count for one in sets))

    def named(self, letter: str) -> str:
        """Return the host that s (source) or d (destination) stands for."""
        return {"s": self.source, "d": self.destination}[letter]

    async def leaves_no_trace(self) -> None:
        """See that nothing of the server's shares is anywhere, and nobody has to do with them."""
        await self.has(rules="", mounts="", guest="")
        assert await self.cloud.complaints() == []


async def address_of(cloud: SharingCloud, host: str) -> str:
    """Return whom rules of NFS shares let in for a host."""
    return (await cloud.known_agents[host].host()).shares.address


@asynccontextmanager
async def sharing_cloud(
    directory: Path, names: Collection[str] = HOSTS, **how: Any
) -> AsyncGenerator[SharingCloud]:
    """A cloud with shares and several hosts."""
    async with SharingCloud(directory, hosts=names, **how) as cloud:
        yield cloud


async def server_with_shares(
    cloud: SharingCloud, *shares: str, runs: bool = True, **more: Any
) -> Sharing:
    """Make a server with shares, which runs unless it is to be stopped."""
    server_id = await cloud.make_stopped(**more)
    for share in shares:
        assert (await cloud.add_share(server_id, share)).status == 201
        await cloud.settle()
    if runs:
        assert await cloud.act(server_id, "os-start") == 202
        await cloud.settle()
    source = (await cloud.server(server_id))["OS-EXT-SRV-ATTR:host"]
    destination = next(host for host in cloud.hosts if host != source)
    return Sharing(cloud, server_id, list(shares), source, destination)


@asynccontextmanager
async def sharing_server(
    keeper: Keeper, *, shares: int = 1, hosts: tuple[str, ...] = HOSTS, **how: Any
) -> AsyncGenerator[Sharing]:
    """Give a server that runs with so many shares, begun where the first one did."""

    async def make(cloud: SharingCloud) -> tuple[str, list[str], str, str]:
        made = await server_with_shares(cloud, *[await cloud.make_share() for _ in range(shares)])
        return made.server_id, made.shares, made.source, made.destination

    what = f"a server with {shares} shares"
    async with keeper.open(SharingCloud, make, what, hosts=hosts, **how) as (cloud, made):
        yield Sharing(cloud, *made)


# -- what befalls ------------------------------------------------------------------------------


def record(cloud: SharingCloud) -> list[str]:
    """Return a list to which each change that hosts and share service are asked for is added.

    Of hosts "host1 PUT /servers/...", of the share service "allow_access" and "deny_access".
    """
    calls: list[str] = []
    to_host, to_service = cloud.deliver_to_host, cloud.deliver

    async def tell_host(request: hosts.Request, forward: hosts.Forward) -> hosts.Response:
        if request.method != "GET":
            calls.append(f"{request.headers['host']} {request.method} {request.target}")
        return await to_host(request, forward)

    async def tell_service(request: Request, forward: Forward) -> Response:
        word = _access_of(request)
        if word:
            calls.append(word)
        return await to_service(request, forward)

    cloud.deliver_to_host, cloud.deliver = tell_host, tell_service
    return calls


async def leak(cloud: SharingCloud, share: str, host: str) -> None:
    """Let a host in to a share as compute does, and mount it there for nobody."""
    address = await address_of(cloud, host)
    new = NewRule(
        access_type="ip",
        access_to=address,
        lock_reason=access_rules.REASON,
        metadata=access_rules.MARK,
    )
    await cloud.compute.shares.allow_access(None, share, new)
    await cloud.settle()
    exports = await cloud.compute.shares.export_locations(None, share)
    request = MountRequest(export=exports[0].path, protocol="NFS")
    await cloud.known_agents[host].mount_share(STRANGER, share, request)


def takes(call: str) -> bool:
    """Whether a call takes a share from a host."""
    return call == "deny_access" or _is_mount(call, "DELETE")


def gives(call: str) -> bool:
    """Whether a call gives a share to a host."""
    return call == "allow_access" or _is_mount(call, "PUT")


def _is_mount(call: str, method: str) -> bool:
    return f" {method} /servers/" in call and "/shares/" in call


class Refusal:
    """Lets the share service refuse, or not answer, calls about access rules."""

    def __init__(self, cloud: SharingCloud, word: str, *, after: int = 0) -> None:
        self.is_on, self.silent, self._word, self._after = True, False, word, after
        self._deliver = cloud.deliver
        cloud.deliver = self._answer

    async def _answer(self, request: Request, forward: Forward) -> Response:
        if self.is_on and _access_of(request) == self._word:
            if self.silent:
                raise NoAnswer("The share service is not there.")
            if self._after <= 0:
                body = b'{"forbidden": {"message": "It will not go.", "code": 403}}'
                return Response(403, body, {"content-type": "application/json"})
            self._after -= 1
        return await self._deliver(request, forward)


def _access_of(request: Request) -> str:
    if request.method != "POST" or not request.path.startswith("/share/v2/shares/"):
        return ""
    return next(iter(json.loads(request.content or b"{}")), "")


def refuse(sharing: Sharing, what: str) -> None:
    """Let the destination not get the second share, or not take the guest."""
    knobs = sharing.cloud.hypervisor(sharing.destination).knobs
    if what == "grant":
        Refusal(sharing.cloud, "allow_access", after=1)
    elif what == "mount":
        refuse_mount(sharing, sharing.shares[1])
    elif what == "hang":
        said = "mount took longer than 60 s, and was ended. Nothing was mounted."
        refuse_mount(sharing, sharing.shares[1], Unavailable(said))
    else:
        knobs.fail("define", Conflict("It will not start."))


def refuse_mount(sharing: Sharing, share: str, error: MooringError | None = None) -> None:
    """Let no host mount a share from now on: it is not let in, or says another `error`."""
    to_host = sharing.cloud.deliver_to_host
    error = error or Forbidden("Its server lets this host in by no rule.")
    status = 503 if isinstance(error, Unavailable) else 403

    async def answer(request: hosts.Request, forward: hosts.Forward) -> hosts.Response:
        if request.method == "PUT" and request.target.endswith(f"/shares/{share}"):
            body = wire.body_of(error)
            return hosts.Response(status, body, {"content-type": "application/json"})
        return await to_host(request, forward)

    sharing.cloud.deliver_to_host = answer


async def switch(cloud: SharingCloud, host: str, status: str) -> None:
    """Let a host have new servers (`enabled`), or not (`disabled`)."""
    listed = await cloud.ask("GET", _HOSTS, user="admin", version="2.100")
    services = {one["host"]: one["id"] for one in listed.body["services"]}
    path, body = f"/os-services/{services[host]}", {"status": status}
    assert (await cloud.ask("PUT", path, body, user="admin", version="2.100")).status == 200


async def fault(sharing: Sharing) -> str:
    """Return why the server's last action failed, as its event says."""
    path = f"/servers/{sharing.server_id}/os-instance-actions"
    listed = (await sharing.cloud.ask("GET", path, user="admin")).body["instanceActions"]
    newest = f"{path}/{listed[0]['request_id']}"
    shown = (await sharing.cloud.ask("GET", newest, user="admin")).body["instanceAction"]
    return " ".join(str(event.get("details")) for event in shown["events"])


async def count_locks(sharing: Sharing) -> int:
    """Return how many locks there are of access rules."""
    path = "/share/v2/resource-locks?resource_type=access_rule&all_projects=1"
    answer = await sharing.cloud.ask("GET", path, user="compute", version="2.82")
    return len(answer.body["resource_locks"])
