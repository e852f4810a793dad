"""The serial ports of simulated guests, which echo what is typed, as a terminal does."""

from __future__ import annotations

import asyncio

from mooring.agent.guest_serial import SerialPort, check_talks
from mooring.agent.hypervisor import Tell
from mooring.agent.settings import AgentSettings
from mooring.agent.simulated_unplugging import SimulatedUnplugging
from mooring.agent.world import RUNNING, SimulatedGuest, write

_WAITING_BYTES = 64 * 1024


class SimulatedSerial(SimulatedUnplugging):
    """A part of `SimulatedHypervisor`. `knobs` point: open_serial."""

    def __init__(self, settings: AgentSettings, tell: Tell) -> None:
        super().__init__(settings, tell)
        self._ports: dict[str, _Port] = {}
        self._world.heed = self._heed

    async def check_serial(self, server_id: str) -> None:
        check_talks(server_id, self._get(server_id).state, is_open=True)

    async def open_serial(self, server_id: str) -> SerialPort:
        await self.knobs.at("open_serial")
        await self.check_serial(server_id)
        if (before := self._ports.pop(server_id, None)) is not None:
            before.end()
        port = self._ports[server_id] = _Port(self, self._get(server_id))
        return port

    def type(self, server_id: str, data: bytes) -> None:
        """Let a guest echo what is typed; one that stands still does not hear it."""
        guest = self._get(server_id)
        if guest.state == "running":
            typed = data.decode("utf-8", "replace")
            write(guest, typed.replace("\r", "\n").replace("\n", "\r\n"))
            self._world.save(guest)

    def leave(self, port: SerialPort, server_id: str) -> None:
        """Have a port no more, if it is still the one that is open."""
        if self._ports.get(server_id) is port:
            del self._ports[server_id]

    def _heed(self, server_id: str, guest: SimulatedGuest | None) -> None:
        if (port := self._ports.get(server_id)) is None:
            return
        if guest is None or guest.state not in RUNNING:
            del self._ports[server_id]
            port.end()
        else:
            port.hear(guest)

    def _hang_up(self) -> None:
        for port in self._ports.values():
            port.end()
        self._ports.clear()


class _Port:
    def __init__(self, hypervisor: SimulatedSerial, guest: SimulatedGuest) -> None:
        self._hypervisor, self._server_id = hypervisor, guest.server_id
        self._heard, self._came = guest.said, bytearray()
        self._changed, self._ended = asyncio.Event(), False

    def hear(self, guest: SimulatedGuest) -> None:
        """Take what the guest has written since."""
        new, self._heard = guest.said - self._heard, guest.said
        text = guest.console[-new:] if new > 0 else ""
        # A simulated guest waits for nobody: of what is not read its end stays.
        self._came = (self._came + text.encode())[-_WAITING_BYTES:]
        self._changed.set()

    def end(self) -> None:
        """End, from the guest's side."""
        self._ended = True
        self._changed.set()

    async def read(self) -> bytes:
        while not self._came and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        found, self._came = bytes(self._came), bytearray()
        return found

    async def write(self, data: bytes, wait_s: float) -> int:
        del wait_s
        if self._ended:
            return 0
        self._hypervisor.type(self._server_id, data)
        return len(data)

    async def close(self) -> None:
        self._hypervisor.leave(self, self._server_id)
        self.end()
