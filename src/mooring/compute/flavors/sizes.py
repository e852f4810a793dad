"""What a server takes from its flavor: a copy, so that the flavor may change or go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict

if TYPE_CHECKING:
    from mooring.compute.tables import Flavor, Server


class Size(Struct, frozen=True, kw_only=True):
    """The size of a server: memory and swap in MiB, disks in GiB."""

    flavor_id: str
    flavor_name: str
    vcpus: int
    memory_mib: int
    disk_gib: int
    ephemeral_gib: int = 0
    swap_mib: int = 0
    extra_specs: dict[str, str] = {}

    def columns(self) -> dict[str, Any]:
        """Return it as the columns of a server."""
        return asdict(self)


def of_flavor(flavor: Flavor) -> Size:
    """Return the size that a flavor gives now."""
    return Size(
        flavor_id=flavor.id,
        flavor_name=flavor.name,
        vcpus=flavor.vcpus,
        memory_mib=flavor.memory_mib,
        disk_gib=flavor.disk_gib,
        ephemeral_gib=flavor.ephemeral_gib,
        swap_mib=flavor.swap_mib,
        extra_specs=dict(flavor.extra_specs),
    )


def of_server(server: Server) -> Size:
    """Return the size that a server has."""
    return Size(**{name: getattr(server, name) for name in Size.__struct_fields__})
