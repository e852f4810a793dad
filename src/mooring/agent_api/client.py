"""The typed client of an agent: one method for each verb, raising the nine kinds of error.

A verb that takes longer than two seconds is answered 202 by the agent; the client then waits for
its end, up to the call's own `timeout_s`. What a deadline leaves behind is Unavailable: it may have
happened or not, and asking again with the same operation gives the same answer.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import msgspec

from mooring.agent_api import verbs
from mooring.agent_api.calls import decode
from mooring.agent_api.capture_calls import CaptureCalls
from mooring.agent_api.certificates import MoveCertificates, Renewed, Shown, ShownForMoves
from mooring.agent_api.copy_calls import CopyCalls
from mooring.agent_api.disk_calls import DiskCalls
from mooring.agent_api.guest_share_calls import GuestShareCalls
from mooring.agent_api.guest_shares import MountedShare
from mooring.agent_api.hosts import Events, Host, Inventory
from mooring.agent_api.images import Arrived, CachedImage, ImageSpec
from mooring.agent_api.mirror_calls import MirrorCalls
from mooring.agent_api.move_calls import MoveCalls
from mooring.agent_api.overlay_calls import OverlayCalls
from mooring.agent_api.remote import Place, RemoteSocket
from mooring.agent_api.serial_calls import SerialCalls
from mooring.agent_api.servers import Guest, PowerRequest, ServerSpec
from mooring.agent_api.share_calls import ShareCalls
from mooring.agent_api.snapshot_calls import SnapshotCalls
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
from mooring.agent_api.volume_calls import VolumeCalls
from mooring.bulkhead import Bulkheads, Door
from mooring.clock import Clock
from mooring.errors import Bug, Conflict, Unavailable
from mooring.fence.operation import Operation
from mooring.fence.rules import is_taken
from mooring.limits import AGENT_CALL_S, AGENT_LONG_CALL_S, AGENT_POLL_S, HOST_HEARD_S


class AgentClient(
    CaptureCalls,
    CopyCalls,
    DiskCalls,
    GuestShareCalls,
    MirrorCalls,
    MoveCalls,
    OverlayCalls,
    SerialCalls,
    ShareCalls,
    SnapshotCalls,
    VolumeCalls,
):
    """Speaks to the agent of one host.

    It names, with each verb, the incarnation that `host()` read last. An agent of another one does
    nothing and the verb is Unavailable with `detail["incarnation"]`, until `host()` is read again.
    """

    def __init__(self, name: str, wire: Wire, door: Door | None = None) -> None:
        super().__init__(name, wire, door)
        self._asking = asyncio.Lock()
        self._said: tuple[float, Host] | None = None

    async def host(self) -> Host:
        """Return what the host is and has; from now on verbs name this incarnation."""
        host = await self.ask(verbs.SHOW_HOST)
        _check_itself(self.name, host)
        self.incarnation, self._said = host.incarnation, (time.monotonic(), host)
        return host

    async def last_heard(self) -> Host:
        """Return what `host()` returned to another in the last moments, or else returns now.

        For services that look at every host again and again beside the one that listens for its
        heartbeat: with a thousand hosts their questions would take a core.
        """
        async with self._asking:
            if self._said is not None and time.monotonic() - self._said[0] < HOST_HEARD_S:
                return self._said[1]
            return await self.host()

    async def connector(self) -> dict[str, Any]:
        """Return how this host connects volumes (block_storage.md 10.1)."""
        return await self.ask(verbs.SHOW_CONNECTOR)

    async def inventory(self) -> Inventory:
        """Return everything on the host, for doctor."""
        return await self.ask(verbs.SHOW_INVENTORY)

    async def share_mounts(self) -> list[MountedShare]:
        """Return which servers the host has shares mounted for, or had until it started anew."""
        found = await self.find(verbs.LIST_SHARE_MOUNTS)
        # An agent of the release before tells it among everything else.
        return (await self.inventory()).share_mounts if found is None else found

    async def certificate(self) -> Shown:
        """Return what the host shows and wishes. Raises Forbidden for one that never joined."""
        return await self.ask(verbs.SHOW_CERTIFICATE)

    async def put_certificate(self, certificate: str) -> None:
        """Have the host show another certificate. Raises Conflict: not for the key it wished."""
        await self.ask(verbs.PUT_CERTIFICATE, body=Renewed(certificate))

    async def move_certificates(self) -> ShownForMoves:
        """Return what the host's guests come and go with, and what it wishes."""
        return await self.ask(verbs.SHOW_MOVE_CERTIFICATES)

    async def put_move_certificates(self, given: MoveCertificates) -> None:
        """Have guests come and go with other certificates. Raises Conflict, as above."""
        await self.ask(verbs.PUT_MOVE_CERTIFICATES, body=given)

    async def events(self, after: int = 0, wait_s: float = AGENT_POLL_S) -> Events:
        """Return the news after a number, waiting up to `wait_s` for the first."""
        timeout_s = wait_s + AGENT_CALL_S
        return await self.ask(verbs.SHOW_EVENTS, timeout_s=timeout_s, after=after, wait=wait_s)

    async def show_image(self, image_id: str) -> CachedImage | None:
        """Return an image of the cache, or None."""
        return await self.find(verbs.SHOW_IMAGE, image_id)

    async def arrived_bytes(self, image_id: str) -> int:
        """Return how much of an image for an operation has come; 0 with the release before."""
        return (await self.find(verbs.SHOW_ARRIVED, image_id) or Arrived(0)).size_bytes

    async def put_image(
        self,
        image_id: str,
        spec: ImageSpec,
        chunks: AsyncIterator[bytes],
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> CachedImage:
        """Push an image into the cache; unread when it is there.

        Invalid: not as declared. NoCapacity. Unavailable: broken off, or less has come than it is
        to go on from.
        """
        target = verbs.PUT_IMAGE.target(image_id, **msgspec.to_builtins(spec))
        headers = self._headers(operation) | {"content-type": "application/octet-stream"}
        request = Request("PUT", target, headers, chunks)
        return decode(CachedImage, await self._finish(request, timeout_s))

    async def delete_image(self, image_id: str, *, operation: Operation | None = None) -> None:
        """Take an image out of the cache; guests made from it keep working."""
        await self.ask(verbs.DELETE_IMAGE, image_id, operation=operation)

    async def list_servers(self) -> list[Guest]:
        """Return all guests of the host."""
        return await self.ask(verbs.LIST_SERVERS)

    async def show_server(self, server_id: str) -> Guest | None:
        """Return a guest, or None when the host has none of that id."""
        return await self.find(verbs.SHOW_SERVER, server_id)

    async def put_server(
        self,
        server_id: str,
        spec: ServerSpec,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> Guest:
        """Connect its disks, define and start it. NotFound: its image is not in the cache."""
        return await self.ask(
            verbs.PUT_SERVER, server_id, body=spec, operation=operation, timeout_s=timeout_s
        )

    async def delete_server(
        self,
        server_id: str,
        *,
        keeps_disks: bool = False,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """End the guest, forget it and remove its own files. Its volumes stay connected.

        With `keeps_disks` its root disk stays, for `put_server` with `RootDisk(copied=True)`. An
        agent of the release before removes it all the same: ask only one that has given or kept
        disks, which such an agent does not.
        """
        query = {"keeps_disks": 1} if keeps_disks else {}
        await self.ask(
            verbs.DELETE_SERVER, server_id, operation=operation, timeout_s=timeout_s, **query
        )

    async def claim_server(
        self, server_id: str, *, operation: Operation, timeout_s: float = AGENT_LONG_CALL_S
    ) -> None:
        """Wait for what acts on a guest, and let no call of an older lock make or end it.

        Nothing is changed, and there need be none. An agent of the release before keeps none off.
        """
        await self.claim(verbs.CLAIM_SERVER, server_id, operation, timeout_s)

    async def set_power(
        self,
        server_id: str,
        power: PowerRequest,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> Guest:
        """Start, stop or reboot. NotFound: the host has no such guest."""
        return await self.ask(
            verbs.SET_POWER, server_id, body=power, operation=operation, timeout_s=timeout_s
        )

    async def read_console(self, server_id: str, length: int | None = None) -> str:
        """Return the last `length` lines of the serial console; None for all that is kept."""
        lines = "" if length is None else length
        return (await self.ask(verbs.READ_CONSOLE, server_id, length=lines)).output

    async def pay(self, target: str, *, operation: Operation) -> None:
        """Undo what a host owes: the path, with its query, of a verb that undoes another.

        Raises Bug for what is none of these, a Conflict that `is_taken` where that is left to
        somebody who took it later.
        """
        if (found := verbs.find_undo(target)) is None:
            raise Bug(f"Nothing is undone by a DELETE of {target}.")
        verb, words = found
        if verb is verbs.UNPLUG_DISK:
            names = words["server_id"], words["volume_id"]
            await self._unplug(*names, words.get("attachment_id", ""), operation)
        else:
            await self._exchange(verb, target, operation=operation, timeout_s=AGENT_LONG_CALL_S)

    async def _unplug(
        self, server_id: str, volume_id: str, attachment_id: str, operation: Operation
    ) -> None:
        try:
            await self.unplug_disk(server_id, volume_id, attachment_id, operation=operation)
        except Conflict as error:
            # A volume of the old calls is its own attachment: who took the disk has that as well.
            if attachment_id in {"", volume_id} or not is_taken(error):
                raise
            # Else he may know of another attachment alone, and nobody would end this connection.
            await self.disconnect(attachment_id, operation=operation)


def _check_itself(name: str, host: Host) -> None:
    """Raise Bug for a host that speaks for another one, or what no database could keep.

    Else it could keep a dead host alive, and what is written down of others with it would be lost.
    """
    if host.name != name:
        raise Bug(
            f"What answers for host {name} calls itself {host.name[:80]}. See which agent runs "
            "there; nothing that it says is believed."
        )
    if b"\\u0000" in msgspec.json.encode(host):
        raise Bug(f"What host {name} says of itself has a NUL in it, and is not believed.")


async def _see_nothing() -> None:
    """Look nowhere: the hosts are those with which the process was started."""


class Agents:
    """The hosts that this control plane knows, each with its client."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clients: dict[str, AgentClient] = {}
        self.doors = Bulkheads(clock)
        self.deliver: Deliver = deliver_once
        """Stands before each call: a test that sets it loses, repeats or holds back calls."""
        self.look: Callable[[], Awaitable[None]] = _see_nothing
        """Sees which hosts there are by now, where other processes let them in and out."""

    def add(self, client: AgentClient) -> AgentClient:
        """Know a host by its client, whose calls go through the host's door from now on."""
        client.door = self.doors[client.name]
        self._clients[client.name] = client
        return client

    def in_process(self, name: str, app: App) -> AgentClient:
        """Know a host whose agent runs in this process."""
        return self.add(AgentClient(name, InProcess(app, self._deliver)))

    def unix(self, name: str, path: str) -> AgentClient:
        """Know a host of this machine whose agent listens on a Unix socket."""
        return self.add(AgentClient(name, UnixSocket(path, self._deliver)))

    def remote(self, name: str, place: Place, context: ssl.SSLContext) -> AgentClient:
        """Know a host of another machine, by what is asked with the certificate of `context`."""
        return self.add(AgentClient(name, RemoteSocket(name, place, context, self._deliver)))

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
