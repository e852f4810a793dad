"""The typed client of an agent: one method for each verb, raising the nine kinds of error.

A verb that takes longer than two seconds is answered 202 by the agent; the client then waits for
its end, up to the call's own `timeout_s`. What a deadline leaves behind is Unavailable: it may have
happened or not, and asking again with the same operation gives the same answer.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from mooring.agent_api.disks import Connected, ConnectRequest, DiskSpec, GuestDisk
from mooring.agent_api.hosts import Events, Host, Inventory
from mooring.agent_api.images import CachedImage, ImageSpec
from mooring.agent_api.servers import Console, Guest, PowerRequest, ServerSpec
from mooring.agent_api.transport import (
    App,
    Deliver,
    Forward,
    InProcess,
    Request,
    Response,
    UnixSocket,
    Wire,
    deliver_once,
)
from mooring.agent_api.volumes import Export, ExportRequest, VolumeFile, VolumeSpec
from mooring.agent_api.wire import error_of
from mooring.errors import Bug, NotFound, Unavailable
from mooring.fence.operation import HEADER, INCARNATION_HEADER, Operation
from mooring.limits import AGENT_CALL_S, AGENT_LONG_CALL_S, AGENT_POLL_S

T = TypeVar("T")


class AgentClient:
    """Speaks to the agent of one host.

    It names, with each verb, the incarnation that `host()` read last. An agent of another one does
    nothing and the verb is Unavailable with `detail["incarnation"]`, until `host()` is read again.
    """

    def __init__(self, name: str, wire: Wire) -> None:
        self.name, self._wire = name, wire
        self.incarnation = ""

    async def host(self) -> Host:
        """Return what the host is and has; from now on verbs name this incarnation."""
        host = await self._ask(Host, "GET", "/host")
        self.incarnation = host.incarnation
        return host

    async def connector(self) -> dict[str, Any]:
        """Return how this host connects volumes (block_storage.md 10.1)."""
        return await self._ask(dict[str, Any], "GET", "/connector")

    async def inventory(self) -> Inventory:
        """Return everything on the host, for doctor."""
        return await self._ask(Inventory, "GET", "/inventory")

    async def events(self, after: int = 0, wait_s: float = AGENT_POLL_S) -> Events:
        """Return the news after a number, waiting up to `wait_s` for the first."""
        target = "/events?" + urlencode({"after": after, "wait": wait_s})
        return await self._ask(Events, "GET", target, timeout_s=wait_s + AGENT_CALL_S)

    async def show_image(self, image_id: str) -> CachedImage | None:
        """Return an image of the cache, or None."""
        return await self._find(CachedImage, _path("images", image_id))

    async def put_image(
        self,
        image_id: str,
        spec: ImageSpec,
        chunks: AsyncIterator[bytes],
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> CachedImage:
        """Push an image into the cache; unread when it is there. Invalid: not as declared."""
        target = _path("images", image_id) + "?" + urlencode(msgspec.to_builtins(spec))
        headers = self._headers(operation) | {"content-type": "application/octet-stream"}
        request = Request("PUT", target, headers, chunks)
        return _decode(CachedImage, await self._finish(request, timeout_s))

    async def delete_image(self, image_id: str, *, operation: Operation | None = None) -> None:
        """Take an image out of the cache; guests made from it keep working."""
        await self._ask(None, "DELETE", _path("images", image_id), operation=operation)

    async def list_servers(self) -> list[Guest]:
        """Return all guests of the host."""
        return await self._ask(list[Guest], "GET", "/servers")

    async def show_server(self, server_id: str) -> Guest | None:
        """Return a guest, or None when the host has none of that id."""
        return await self._find(Guest, _path("servers", server_id))

    async def put_server(
        self,
        server_id: str,
        spec: ServerSpec,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> Guest:
        """Connect its disks, define and start it. NotFound: its image is not in the cache."""
        target = _path("servers", server_id)
        return await self._ask(Guest, "PUT", target, spec, operation=operation, timeout_s=timeout_s)

    async def delete_server(
        self,
        server_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """End the guest, forget it and remove its own files. Its volumes stay connected."""
        target = _path("servers", server_id)
        await self._ask(None, "DELETE", target, operation=operation, timeout_s=timeout_s)

    async def set_power(
        self,
        server_id: str,
        power: PowerRequest,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> Guest:
        """Start, stop or reboot. NotFound: the host has no such guest."""
        target = _path("servers", server_id, "power")
        return await self._ask(
            Guest, "PUT", target, power, operation=operation, timeout_s=timeout_s
        )

    async def read_console(self, server_id: str, length: int | None = None) -> str:
        """Return the last `length` lines of the serial console; None for all that is kept."""
        target = _path("servers", server_id, "console")
        if length is not None:
            target += "?" + urlencode({"length": length})
        return (await self._ask(Console, "GET", target)).output

    async def connect(
        self,
        attachment_id: str,
        volume_id: str,
        connection: Mapping[str, Any],
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> Connected:
        """Connect a volume's backend to the host; `connection` nested or flat."""
        body = ConnectRequest(volume_id=volume_id, connection=dict(connection))
        target = _path("connections", attachment_id)
        return await self._ask(
            Connected, "PUT", target, body, operation=operation, timeout_s=timeout_s
        )

    async def disconnect(
        self,
        attachment_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """Undo `connect`; nothing when it is not connected. Conflict: a guest still uses it."""
        target = _path("connections", attachment_id)
        await self._ask(None, "DELETE", target, operation=operation, timeout_s=timeout_s)

    async def plug_disk(
        self,
        server_id: str,
        disk: DiskSpec,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> GuestDisk:
        """Connect a volume and give it to a running or stopped guest; answers its device."""
        target = _path("servers", server_id, "disks", disk.volume_id)
        return await self._ask(
            GuestDisk, "PUT", target, disk, operation=operation, timeout_s=timeout_s
        )

    async def unplug_disk(
        self,
        server_id: str,
        volume_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """Take a disk away and see that the guest let go; nothing when it has none.

        Conflict: the guest keeps it; the definition is as before. The backend stays connected.
        """
        target = _path("servers", server_id, "disks", volume_id)
        await self._ask(None, "DELETE", target, operation=operation, timeout_s=timeout_s)

    async def show_volume(self, volume_id: str) -> VolumeFile | None:
        """Return a volume of the host's pools, or None."""
        return await self._find(VolumeFile, _path("volumes", volume_id))

    async def put_volume(
        self,
        volume_id: str,
        spec: VolumeSpec,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> VolumeFile:
        """Make a volume. NoCapacity: the pool is full; NotFound: no such pool or cached image."""
        target = _path("volumes", volume_id)
        return await self._ask(
            VolumeFile, "PUT", target, spec, operation=operation, timeout_s=timeout_s
        )

    async def delete_volume(
        self,
        volume_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """Remove a volume; nothing when there is none. Conflict: it is exported."""
        target = _path("volumes", volume_id)
        await self._ask(None, "DELETE", target, operation=operation, timeout_s=timeout_s)

    async def export_volume(
        self,
        volume_id: str,
        attachment_id: str,
        connector: Mapping[str, Any],
        *,
        operation: Operation | None = None,
    ) -> dict[str, Any]:
        """Let a host reach a volume; returns connection_info. Invalid: not a host for this pool."""
        target = _path("volumes", volume_id, "exports", attachment_id)
        body = ExportRequest(dict(connector))
        return (await self._ask(Export, "PUT", target, body, operation=operation)).connection_info

    async def unexport_volume(
        self, volume_id: str, attachment_id: str, *, operation: Operation | None = None
    ) -> None:
        """Undo `export_volume`; nothing when there is no such export."""
        target = _path("volumes", volume_id, "exports", attachment_id)
        await self._ask(None, "DELETE", target, operation=operation)

    async def close(self) -> None:
        """Let go of the connections to the agent."""
        await self._wire.close()

    def _headers(self, operation: Operation | None) -> dict[str, str]:
        headers = {"content-type": "application/json"}
        if operation is not None:
            headers[HEADER.lower()] = str(operation)
        if self.incarnation:
            headers[INCARNATION_HEADER.lower()] = self.incarnation
        return headers

    async def _find(self, kind: type[T], target: str) -> T | None:
        try:
            return await self._ask(kind, "GET", target)
        except NotFound:
            return None

    async def _ask(
        self,
        kind: type[T] | None,
        method: str,
        target: str,
        body: Any = None,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_CALL_S,
    ) -> T:
        content = b"" if body is None else msgspec.json.encode(body)
        # Reading is never refused for the incarnation: that is how another one is found out.
        headers = {} if method == "GET" else self._headers(operation)
        answer = await self._finish(Request(method, target, headers, content), timeout_s)
        return _decode(kind, answer)

    async def _finish(self, request: Request, timeout_s: float) -> Response:
        """Send, and follow a 202 to its end."""
        deadline = time.monotonic() + timeout_s
        answer = await self._wire.send(request, timeout_s)
        while answer.status == 202:
            ticket = msgspec.json.decode(answer.body, type=dict[str, str])["ticket"]
            left = deadline - time.monotonic()
            if left <= 0:
                raise Unavailable(
                    f"Host {self.name} was not done within {timeout_s:g} s; it goes on. Ask again.",
                    private=f"{request.method} {request.target}, ticket {ticket}",
                )
            target = f"/operations/{quote(ticket, safe='')}?wait={min(left, AGENT_POLL_S):.3f}"
            answer = await self._wire.send(Request("GET", target, {}), AGENT_CALL_S + AGENT_POLL_S)
        if answer.status >= 400:
            raise self._refusal(answer)
        return answer

    def _refusal(self, answer: Response) -> Exception:
        error = error_of(answer.status, answer.body, self.name)
        if answer.status == 412 and "incarnation" in error.detail:
            return Unavailable(error.public, private=error.private, **error.detail)
        return error


def _path(*parts: str) -> str:
    return "/" + "/".join(quote(part, safe="") for part in parts)


def _decode(kind: Any, answer: Response) -> Any:
    if kind is None:
        return None
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except msgspec.DecodeError as error:
        raise Bug("An agent gave an answer that makes no sense.", private=str(error)) from error


class Agents:
    """The hosts that this control plane knows, each with its client."""

    def __init__(self) -> None:
        self._clients: dict[str, AgentClient] = {}
        self.deliver: Deliver = deliver_once
        """Stands before each call: a test that sets it loses, repeats or holds back calls."""

    def add(self, client: AgentClient) -> AgentClient:
        """Know a host by its client."""
        self._clients[client.name] = client
        return client

    def in_process(self, name: str, app: App) -> AgentClient:
        """Know a host whose agent runs in this process."""
        return self.add(AgentClient(name, InProcess(app, self._deliver)))

    def unix(self, name: str, path: str) -> AgentClient:
        """Know a host of this machine whose agent listens on a Unix socket."""
        return self.add(AgentClient(name, UnixSocket(path, self._deliver)))

    def remove(self, name: str) -> None:
        """Know a host no more."""
        self._clients.pop(name, None)

    def __getitem__(self, name: str) -> AgentClient:
        """Return the client of a host. Raises Unavailable when nobody knows it."""
        try:
            return self._clients[name]
        except KeyError:
            known = ", ".join(sorted(self._clients)) or "none"
            raise Unavailable(
                f"No agent is known for host {name}; start one there or remove the host.",
                private=f"known: {known}",
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self._clients

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._clients))

    def __len__(self) -> int:
        return len(self._clients)

    async def _deliver(self, request: Request, forward: Forward) -> Response:
        return await self.deliver(request, forward)

    async def close(self) -> None:
        """Let go of all connections."""
        for client in self._clients.values():
            await client.close()
