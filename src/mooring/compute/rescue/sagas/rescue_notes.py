"""What is remembered while a server is rescued, or boots from its own disks again."""

from __future__ import annotations

from mooring.agent_api.disks import DiskBus
from mooring.agent_api.servers import RescueDevice
from mooring.compute.power.sagas.power_notes import ChangePower, Mode, State

RUNS = frozenset({"running", "paused"})
"""How a guest is that has an emulator."""


class ChangeRescue(ChangePower, frozen=True, kw_only=True):
    """The notes of both ways: for its host, each is a hard reboot.

    in_rescue  after a failure: whether the guest was found with the disk of a rescue
    """

    state: State = "reboot"
    mode: Mode = "hard"
    in_rescue: bool = False


class RescueServer(ChangeRescue, frozen=True, kw_only=True):
    """What the way there has to know besides.

    device, bus, is_stable  how the disk that is made of the image is given to the guest
    was_running             whether the guest ran, or stood still, before
    """

    image_id: str
    device: RescueDevice = "disk"
    bus: DiskBus
    is_stable: bool
    was_running: bool = False

    @property
    def is_changed(self) -> bool:
        """Whether the guest was found otherwise than it was before."""
        return self.in_rescue or (bool(self.found) and (self.found in RUNS) != self.was_running)
