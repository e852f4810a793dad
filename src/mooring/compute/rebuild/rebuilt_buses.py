"""What the disks of a server are on once it is rebuilt, with an image that may ask for another bus.

Its root disk on the host, its swap disk and its config drive are made anew, and follow the image.
Its volumes stay what they are: so does a root volume, which gets another image's content.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.agent_api.disks import prefix_of
from mooring.clients.placement import has_trait
from mooring.compute.drives import config_drives
from mooring.compute.volumes import buses
from mooring.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.compute.rebuild.rebuild_requests import Material
    from mooring.compute.tables import BlockDevice, Host, Server


def find(
    server: Server, host: Host, rows: Sequence[BlockDevice], material: Material
) -> dict[str, str]:
    """Return the columns of the server that say it.

    Raises Invalid: the image asks for what there is not; Conflict: the host is too old, or a volume
    has the root disk's name; Forbidden: a bus has too few places.
    """
    properties = material.image.properties
    usual, drive = buses.of_image(properties), buses.of_drive(properties)
    values: dict[str, str] = {"disk_bus": usual, "cdrom_bus": drive}
    on = [buses.of_row(row) for row in rows if row.volume_id]
    root = next((row for row in rows if row.boot_index == 0), None)
    if server.image_id and root is not None:
        bus = buses.BUSES.get(root.disk_bus or "", usual)
        values |= {"root_bus": bus, "root_device_name": f"{prefix_of(bus)}a"}
        _check_name(values["root_device_name"], [row for row in rows if row is not root])
        on.append(bus)
    has_drive = server.config_drive or config_drives.asks_for_one(properties)
    _check_host(server, host, [*on, usual, *([drive] if has_drive and drive != "scsi" else [])])
    swap = [usual] if server.swap_mib else []
    buses.check_places([*on, *swap, *([drive] if has_drive else [])])
    return values


def _check_name(name: str, others: Sequence[BlockDevice]) -> None:
    for row in others:
        if row.device_name == name:
            raise Conflict(
                f"The image asks for a root disk called {name}, and volume {row.volume_id} of the "
                "server is called so. Nothing was changed; detach the volume, and attach it again "
                "afterwards."
            )


def _check_host(server: Server, host: Host, on: Sequence[str]) -> None:
    lacks = [trait for trait in buses.traits_of(*on) if not has_trait(host.traits, trait)]
    if lacks:
        raise Conflict(
            f"The image asks for disks that host {host.name}, where server {server.id} is, does "
            f"not give (it lacks the trait {lacks[0]}). Nothing was changed; upgrade its agent "
            "first, or migrate the server."
        )
