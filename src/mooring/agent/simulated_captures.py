"""Captures of simulated guests' root disks."""

from __future__ import annotations

from pathlib import Path

from mooring.agent.simulated_qcow2 import write_qcow2
from mooring.agent.simulated_standstill import SimulatedStandstill
from mooring.errors import NotFound
from mooring.fence.threads import run_to_end


class SimulatedCaptures(SimulatedStandstill):
    """A part of `SimulatedHypervisor`. `knobs` point: capture_root."""

    async def capture_root(self, server_id: str, written: Path, operation_key: str) -> None:
        del operation_key
        await self.knobs.at("capture_root")
        guest = self._get(server_id)
        if not guest.image_id:
            raise NotFound(f"The guest of server {server_id} has no root disk on its host.")
        root = self._lay_down(guest)
        await run_to_end(lambda: write_qcow2(root, written))

    async def stop_capture(self, server_id: str) -> None:
        del server_id
