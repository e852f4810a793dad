"""Overlays of a simulated guest's disks: names that move, as a real hypervisor would move them.

What lies below a disk is known as far as this hypervisor put overlays on it; the rest is believed.
"""

from __future__ import annotations

from mooring.agent.hypervisor import no_disk
from mooring.agent.world import RUNNING, SimulatedDisk, SimulatedGuest
from mooring.agent_api.overlays import MergeRequest, check_name
from mooring.errors import Conflict, Invalid, NotFound


def find(guest: SimulatedGuest, volume_id: str) -> SimulatedDisk:
    """Return a guest's disk. Raises NotFound."""
    found = next((disk for disk in guest.disks if disk.volume_id == volume_id), None)
    if found is None:
        raise NotFound(f"The guest of server {guest.server_id} has no volume {volume_id}.")
    return found


def find_seen(guest: SimulatedGuest, volume_id: str) -> SimulatedDisk:
    """Return a disk as its guest has it: one that runs has none that it has let go of."""
    found = find(guest, volume_id)
    if guest.state in RUNNING and not found.live:
        raise no_disk(guest.server_id, volume_id)
    return found


def put_on(disk: SimulatedDisk, new_file: str) -> None:
    """Let a disk be an overlay of what it was. Raises Conflict, Invalid."""
    check_name(new_file)
    if _name(disk.path) == new_file:
        return
    if any(_name(path) == new_file for path, _ in disk.below):
        raise Conflict(
            f"The file {new_file} lies below {_name(disk.path)} already. Nothing was changed; make "
            "a new file."
        )
    disk.below = [(disk.path, disk.format), *disk.below]
    disk.path, disk.format = _beside(disk.path, new_file), "qcow2"


def take_off(disk: SimulatedDisk, new_file: str) -> None:
    """Let a disk be again what an overlay was put on; nothing without that overlay.

    Raises Conflict for one that another lies on.
    """
    if any(_name(path) == check_name(new_file) for path, _ in disk.below):
        raise Conflict(
            f"The guest writes to {_name(disk.path)}, above {new_file}; take that one back first."
        )
    if _name(disk.path) == new_file and disk.below:
        (disk.path, disk.format), *disk.below = disk.below


def merge(disk: SimulatedDisk, wanted: MergeRequest) -> None:
    """Take files out from below a disk. Raises Conflict, Invalid."""
    names = [_name(path) for path, _ in disk.below]
    for name in (wanted.file_to_merge, wanted.merge_target_file):
        if name is not None:
            check_name(name)
    if wanted.merge_target_file is None:
        kept = names.index(wanted.file_to_merge) if wanted.file_to_merge in names else len(names)
        disk.below = disk.below[kept:]
        return
    if wanted.file_to_merge is None:
        raise Invalid("A merge with a target needs a file_to_merge. Nothing was changed.")
    if wanted.file_to_merge == _name(disk.path):
        raise Conflict(
            f"The guest writes to {wanted.file_to_merge}; it cannot go down into another file. "
            "Merge into it instead: leave merge_target_file out."
        )
    gone = wanted.file_to_merge
    disk.below = [layer for layer in disk.below if _name(layer[0]) != gone]


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _beside(path: str, name: str) -> str:
    return f"{path.rpartition('/')[0]}/{name}"
