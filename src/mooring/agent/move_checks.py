"""What is seen of a running guest before it goes to another host: the same for every hypervisor."""

from __future__ import annotations

from mooring.agent.hypervisor import Facts
from mooring.agent_api.moves import Arrival, Portrait
from mooring.agent_api.servers import Guest
from mooring.errors import Conflict


def check_portrait(portrait: Portrait, facts: Facts, name: str) -> None:
    """Raise Conflict unless a guest of another host can run on this one, as far as versions go."""
    ours, theirs = (facts.kind, facts.accelerator), (portrait.hypervisor, portrait.accelerator)
    if ours != theirs:
        raise Conflict(
            f"Host {name} runs guests with {' and '.join(ours)}, and this one runs with "
            f"{' and '.join(theirs)}. Choose a host that has the same."
        )
    if facts.version < portrait.version:
        raise Conflict(
            f"The emulator of host {name} is older ({facts.version}) than the one that the guest "
            f"runs in ({portrait.version}). Upgrade the host, or choose another one."
        )


def check_encryption(server_id: str, arrival: Arrival, *, is_wanted: bool) -> None:
    """Raise Conflict unless both hosts of a move encrypt what is sent, or neither does."""
    if is_wanted != bool(arrival.tls):
        here, there = ("only over", "without") if is_wanted else ("without", "only over")
        raise Conflict(
            f"The host of server {server_id} sends guests {here} TLS, and the one that it is to go "
            f"to takes them {there} it. The guest stays; give both the setting move_tls."
        )


def check_disks(guest: Guest, arrival: Arrival) -> None:
    """Raise Conflict unless all disks of a running guest are ready where it is to go."""
    server_id, there = guest.server_id, {disk.volume_id for disk in arrival.disks}
    if guest.image_id and not arrival.root:
        raise Conflict(
            f"The host that server {server_id} is to go to has made no root disk for it. The guest "
            "stays."
        )
    if guest.has_drive and not arrival.drive:
        raise Conflict(
            f"The host that server {server_id} is to go to has not its config drive. The guest "
            "stays."
        )
    if guest.swap_mib and not arrival.swap:
        raise Conflict(
            f"The host that server {server_id} is to go to has made no swap disk for it. The guest "
            "stays."
        )
    missing = sorted(disk.volume_id for disk in guest.disks if disk.volume_id not in there)
    if missing:
        raise Conflict(
            f"The host that server {server_id} is to go to has not connected volume "
            f"{', '.join(missing)}. The guest stays."
        )
