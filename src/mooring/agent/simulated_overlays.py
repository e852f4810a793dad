"""Overlays of a simulated guest's disks: names that move, as a real hypervisor would move them.

What lies below a disk its simulated pool knows (`simulated_headers.py`). Of a file elsewhere that
is known as far as this hypervisor put overlays on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mooring.agent import simulated_headers as headers
from mooring.agent import simulated_pool
from mooring.agent.hypervisor import no_disk
from mooring.agent.overlays import Layer, check_merge
from mooring.agent.world import RUNNING, SimulatedDisk, SimulatedGuest
from mooring.agent_api.overlays import MergeRequest, check_name
from mooring.errors import Conflict, NotFound


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
    active, *below = _layers(disk)
    if active.name == new_file:
        return
    if any(layer.name == new_file for layer in below):
        raise Conflict(
            f"The file {new_file} lies below {active.name} already. Nothing was changed; make a "
            "new file."
        )
    if simulated_pool.is_path(disk.path):
        headers.put_below(disk.path, new_file, (active.name, active.format))
    _stand(disk, [Layer(active.path.with_name(new_file), "qcow2"), active, *below])


def take_off(disk: SimulatedDisk, new_file: str) -> None:
    """Let a disk be again what an overlay was put on; nothing without that overlay.

    Raises Conflict for one that another lies on.
    """
    check_name(new_file)
    active, *below = _layers(disk)
    if any(layer.name == new_file for layer in below):
        raise Conflict(
            f"The guest writes to {active.name}, above {new_file}; take that one back first."
        )
    if active.name == new_file and below:
        _stand(disk, below)


def merge(disk: SimulatedDisk, wanted: MergeRequest) -> None:
    """Take files out from below a disk. Raises Conflict, Invalid."""
    layers = _layers(disk)
    if check_merge(wanted, layers):
        return
    upper, lower = _place_of(wanted, [layer.name for layer in layers])
    if simulated_pool.is_path(disk.path):
        named = (layers[lower].name, layers[lower].format) if lower is not None else None
        headers.put_below(disk.path, layers[upper].name, named)
    _stand(disk, [*layers[: upper + 1], *([] if lower is None else layers[lower:])])


def _place_of(wanted: MergeRequest, names: Sequence[str]) -> tuple[int, int | None]:
    """Return which file stands on which other one behind a merge; None: on none any more."""
    if wanted.merge_target_file is not None and wanted.file_to_merge is not None:
        return names.index(wanted.file_to_merge) - 1, names.index(wanted.merge_target_file)
    return 0, None if wanted.file_to_merge is None else names.index(wanted.file_to_merge)


def _layers(disk: SimulatedDisk) -> list[Layer]:
    """Return a disk's files from the top down: as its pool has them, or as they were put on."""
    top = Layer(Path(disk.path), disk.format)
    in_pool = simulated_pool.is_path(disk.path)
    found = headers.files_below(disk.path) if in_pool else None
    if found is None:
        return [top, *(Layer(Path(path), kind) for path, kind in disk.below)]
    return [top, *(Layer(top.path.with_name(name), kind) for name, kind in found)]


def _stand(disk: SimulatedDisk, layers: Sequence[Layer]) -> None:
    """Let a disk consist of these files."""
    active, *below = layers
    disk.path, disk.format = _beside(disk.path, active.name), active.format
    disk.below = [(_beside(disk.path, one.name), one.format) for one in below]


def _beside(path: str, name: str) -> str:
    return f"{path.rpartition('/')[0]}/{name}"
