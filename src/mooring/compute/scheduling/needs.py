"""What a server needs of a host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mooring.compute.drives import config_drives
from mooring.compute.volumes import buses
from mooring.errors import NoCapacity

if TYPE_CHECKING:
    from mooring.compute.flavors.sizes import Size
    from mooring.compute.tables import Server

_TRAIT = "trait:"
_WISHES = {"required": "", "forbidden": "!"}
PAGE_SIZE = "hw:mem_page_size"
"""The extra spec of a flavor whose guests have their memory in huge pages: it can be shared."""
VIRTIO_FS, MEMORY = "COMPUTE_STORAGE_VIRTIO_FS", "COMPUTE_MEM_BACKING_FILE"
"""What a host must be able to do for servers with shares (facts/compute.md 7.1)."""


class Needs(Struct, frozen=True, kw_only=True):
    """All that decides which hosts may have a server.

    resources   amounts by resource class: VCPU, MEMORY_MB (MiB), DISK_GB (GiB)
    traits      what the host must be able to do; with a leading "!" what it must not
    zone        the availability zone that was asked for; None is any
    host        the only host that will do, when one was asked for; it may be disabled
    leaving     the host that the server is to leave, and does not go to; "" is none
    tried       hosts that could not have the server
    preferred   the host that comes first where it will do as well as others
    hypervisor  what its root disk is made for, where that goes along; "" is any
    reach       by pool of its volumes that not every host reaches: the hosts that do
    group_id    its server group, whose policy counts the other members; "" is none
    project_id  whose it is: the metadata of an aggregate may keep its hosts for some projects
    specs       the flavor's extra specs: some ask for an aggregate with such metadata
    mounts      by protocol of its shares: below which directory its host mounts them (specs 003)
    letting_go  hosts that still let go of shares which it had there before
    hints       the scheduler hints of its creation: some name servers to be with, or not
    """

    server_id: str
    resources: dict[str, int]
    traits: list[str] = []
    zone: str | None = None
    host: str | None = None
    leaving: str = ""
    tried: list[str] = []
    preferred: str = ""
    hypervisor: str = ""
    reach: dict[str, list[str]] = {}
    group_id: str = ""
    project_id: str = ""
    specs: dict[str, str] = {}
    mounts: dict[str, str] = {}
    letting_go: list[str] = []
    hints: dict[str, Any] = {}

    @property
    def is_choosy(self) -> bool:
        """Whether few hosts may do, or one may do better than others that have room."""
        place = self.zone or self.host or self.preferred
        return bool(place or self.reach or self.group_id or self.hints)


def of_server(
    server: Server,
    *,
    root_is_volume: bool,
    besides: Iterable[str] = (),
    specs: dict[str, str] | None = None,
    **more: Any,
) -> Needs:
    """Return what a server needs of any host that is to have it, as it is; `more` is of the case.

    Its specs, or those of the flavor that it is to have, decide of aggregates and traits, its image
    of traits, also by the bus of its disks, a config drive of those that write one. `besides`:
    traits that its volumes and shares ask for. Raises NoCapacity where the flavor forbids what the
    image requires.
    """
    specs = server.extra_specs if specs is None else specs
    image = traits_of_image(server.image_properties)
    drive = config_drives.traits_of(has_drive=server.config_drive)
    traits = traits_of(specs, [*besides, *drive, *image, *buses.traits_of_server(server)])
    if both := [trait for trait in image if f"!{trait}" in traits]:
        raise NoCapacity(
            f"No host will do for server {server.id}: its image requires the trait {both[0]}, "
            "and its flavor forbids it. Choose another image or flavor."
        )
    asked: dict[str, Any] = {
        "resources": resources_of(server, root_is_volume=root_is_volume),
        "traits": traits,
        "specs": specs,
    }
    return Needs(
        server_id=server.id,
        project_id=server.project_id,
        hints=server.scheduler_hints,
        **(asked | more),
    )


def resources_of(server: Server | Size, *, root_is_volume: bool) -> dict[str, int]:
    """Return what a server takes of a host: VCPU, MEMORY_MB, and DISK_GB where there is any."""
    disk_gib = server.ephemeral_gib + -(-server.swap_mib // 1024)
    if not root_is_volume:
        disk_gib += server.disk_gib
    wanted = {"VCPU": server.vcpus, "MEMORY_MB": server.memory_mib, "DISK_GB": disk_gib}
    return {name: amount for name, amount in wanted.items() if amount}


def traits_of(extra_specs: Mapping[str, str], more: Iterable[str] = ()) -> list[str]:
    """Return the traits that a host must have, those it must not have with a leading "!".

    Of an extra spec with another value than `required` and `forbidden` nothing is heard.
    """
    found = set(more)
    for key, value in extra_specs.items():
        if key.startswith(_TRAIT) and value in _WISHES:
            found.add(_WISHES[value] + key.removeprefix(_TRAIT))
    return sorted(found)


def traits_of_image(properties: Mapping[str, Any]) -> list[str]:
    """Return the traits that an image requires of its servers' hosts; it forbids none.

    Source: facts/identity_image_placement.md, the properties of images.
    """
    asked = (key for key, value in properties.items() if value == "required")
    return sorted(key.removeprefix(_TRAIT) for key in asked if key.startswith(_TRAIT))


def traits_for_shares(extra_specs: Mapping[str, str]) -> list[str]:
    """Return the traits that a host must have for a server with shares.

    Huge pages, which a flavor may ask for, stand for memory that is backed by a file.
    """
    return [VIRTIO_FS] if extra_specs.get(PAGE_SIZE) else [MEMORY, VIRTIO_FS]
