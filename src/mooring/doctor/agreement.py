"""Block devices, attachments, guests, files and allocations tell the same story."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from mooring.agent_api.hosts import Inventory
from mooring.agent_api.servers import Guest
from mooring.agent_api.verbs import DELETE_IMAGE, DELETE_SERVER, UNPLUG_DISK
from mooring.doctor import storage
from mooring.doctor.books import Books
from mooring.doctor.findings import Finding

_DETACH = "Detach the volume, or delete the server; both take what is left along."
_FORGET = "openstack server reboot --hard forgets a volume that is gone; so does its deletion."
_REPORT = "Nothing was removed. See what it is before you remove it by hand."
_RELEASE = (
    "Unshelving or deleting the server gives it back; so does openstack resource provider "
    "allocation delete."
)
_SHOW_USED = "openstack volume set --state in-use --attached, or delete the attachment."
_SHOW_FREE = "openstack volume set --state available --detached."
_UNASKED = (
    "Start the cloud with all of its hosts, as it is started otherwise, and ask again; take out "
    "one that is gone for good: mooring host remove, with --gone when it still owes something."
)
_UNREAD = (
    "See that the volume's storage answers and is mounted on that host; openstack server reboot "
    "--hard connects what is not connected any more."
)
_KEPT = "Nothing was removed, and the host lets go of no share meanwhile, as it may lie there."
GIB = 1 << 30
_RUNNING = {one: one for one in ("stopped", "paused", "suspended")} | {"active": "running"}
_UNBUILT = frozenset({"building", "error"})


def look(books: Books) -> Iterator[Finding]:
    """Yield everything that two of them tell differently."""
    if books.may_compare("compute", "volume"):
        yield from _devices(books)
        yield from _attachments(books)
    if books.may_compare("volume"):
        yield from _statuses(books)
    yield from storage.look(books)
    if books.may_compare("compute", "placement"):
        yield from _allocations(books)
        yield from _resizes(books)
    for name, why in books.silent.items():
        yield Finding(f"host {name}", "host", f"it cannot be asked: {why}", "Start its agent.")
    yield from _unasked(books)
    yield from _nowhere(books)
    for inventory in books.inventories.values():
        yield from _guests(books, inventory)
        yield from _sizes(books, inventory)
        yield from _unread(books, inventory)
        yield from _leftovers(books, inventory)
        yield from _brought(books, inventory)
        yield from _connections(books, inventory)


def _unasked(books: Books) -> Iterator[Finding]:
    """Yield the hosts that the cloud counts with, and whose agent nobody here knows."""
    named = {str(row["name"]) for row in books.hosts.values()}
    named |= {str(row["host"]) for row in books.volume_pools.values()}
    for name in named - books.inventories.keys() - books.silent.keys():
        message = "its agent is not known here, so nobody looked at what it has"
        yield Finding(f"host {name}", "host", message, _UNASKED)


def _devices(books: Books) -> Iterator[Finding]:
    for device in books.devices.values():
        server_id, volume_id = device["server_id"], device["volume_id"]
        if not volume_id or books.is_busy(f"server:{server_id}", f"volume:{volume_id}"):
            continue
        for place in device["places"]:
            if place["attachment_id"]:
                yield from _place(books, device, place)
            elif device["state"] == "attached" and not _old_ones(books, server_id, volume_id):
                message = f"has volume {volume_id} by the old calls, and no attachment says so"
                yield Finding(f"server {server_id}", "disagreement", message, _DETACH)


def _place(books: Books, device: dict[str, Any], place: dict[str, Any]) -> Iterator[Finding]:
    attachment_id: str = place["attachment_id"]
    server_id, volume_id = device["server_id"], device["volume_id"]
    thing, attachment = f"server {server_id}", books.attachments.get(attachment_id)
    if attachment is None:
        message = f"attachment {attachment_id} of volume {volume_id} does not exist"
        # The stock client asks for a volume before it detaches it.
        advice = _DETACH if volume_id in books.volumes else _FORGET
        yield Finding(thing, "disagreement", message, advice)
    elif device["state"] == "attached":
        status = attachment["attach_status"]
        # One that is at no host waits for its server, which was put away; one at a dead host for
        # its server's evacuation.
        is_away = not place["host"] or _is_dead(books, place["host"])
        waits = status == "reserved" and (is_away or books.waits_for_rebuild(device))
        if status != "attached" and not waits:
            message = f"has volume {volume_id}, whose attachment is {status}"
            yield Finding(thing, "disagreement", message, _DETACH)
        if (attachment["server_id"], attachment["volume_id"]) != (server_id, volume_id):
            message = f"attachment {attachment['id']} belongs to something else"
            yield Finding(thing, "disagreement", message, _DETACH)


def _old_ones(books: Books, server_id: str, volume_id: str) -> list[str]:
    """Return the attachments of a server's volume that the old calls made: no place has them."""
    return [
        row["id"]
        for row in books.attachments_by_volume.get(volume_id, ())
        if row["server_id"] == server_id
        and row["attach_status"] == "attached"
        and row["id"] not in books.placed
    ]


def _attachments(books: Books) -> Iterator[Finding]:
    known = {*books.placed, *_by_old_calls(books)}
    for attachment_id, row in books.attachments.items():
        keys = (f"server:{row['server_id']}", f"volume:{row['volume_id']}")
        if row["saga_id"] or row["borrowed_at"] is not None or books.is_busy(*keys):
            continue
        # What users make without a service is theirs, whatever server they name.
        is_users = row["by_service"] is not None and not row["by_service"]
        if row["server_id"] is not None and attachment_id not in known and not is_users:
            message = f"server {row['server_id']} does not know it"
            advice = f"openstack volume attachment delete {attachment_id}"
            yield Finding(f"attachment {attachment_id}", "orphan", message, advice)


def _statuses(books: Books) -> Iterator[Finding]:
    """Yield volumes that are said to be free and are not, or the other way round.

    An administrator's reset of a status makes them (facts/block_storage.md 1.7). One that is only
    reserved gets its status back with its server, which was put away or moves.
    """
    used = {
        row["volume_id"] for row in books.attachments.values() if row["attach_status"] == "attached"
    }
    for volume_id, volume in books.volumes.items():
        if books.is_busy(f"volume:{volume_id}"):
            continue
        status, attached = volume["status"], volume["attach_status"]
        if status == "available" and volume_id in used:
            message = "available, though an attachment of it is attached"
            yield Finding(f"volume {volume_id}", "disagreement", message, _SHOW_USED)
        elif volume_id not in used and (status == "in-use" or attached == "attached"):
            message = f"{status} and {attached}, and no attachment of it is"
            yield Finding(f"volume {volume_id}", "disagreement", message, _SHOW_FREE)


def _by_old_calls(books: Books) -> Iterator[str]:
    """Yield every attachment of a volume that a server has somewhere without one."""
    for device in books.devices.values():
        if device["volume_id"] and any(not place["attachment_id"] for place in device["places"]):
            yield from _old_ones(books, device["server_id"], device["volume_id"])


def _allocations(books: Books) -> Iterator[Finding]:
    for consumer_id, amounts in books.allocations.items():
        server, move = books.servers.get(consumer_id), books.moves.get(consumer_id)
        if books.is_busy(f"server:{move['server_id'] if move else consumer_id}"):
            continue
        thing = f"allocation {consumer_id}"
        if move is not None:
            yield from _held_for_move(thing, move, amounts)
        elif server is None:
            yield Finding(thing, "quota", "no server has it", _REPORT)
        elif not server["host"] and server["vm_state"] not in _UNBUILT:
            yield Finding(thing, "quota", "its server is at no host", _RELEASE)
        elif _taken(amounts) != _size(server):
            yield Finding(thing, "quota", f"holds {amounts}, not what its server has", _REPORT)
    for server_id, server in books.servers.items():
        needs = server["vm_state"] not in _UNBUILT and server["host"]
        if (
            needs
            and server_id not in books.allocations
            and not books.is_busy(f"server:{server_id}")
        ):
            message = "placement holds no room for it"
            yield Finding(f"server {server_id}", "quota", message, _REPORT)


def _resizes(books: Books) -> Iterator[Finding]:
    resized = {move["server_id"]: move["uuid"] for move in books.moves.values()}
    for server_id, server in books.servers.items():
        if books.is_busy(f"server:{server_id}"):
            continue
        waits = server["vm_state"] == "resized"
        if waits and resized.get(server_id) not in books.allocations:
            message = "nothing is held for it on the host to which it may go back"
            yield Finding(f"server {server_id}", "quota", message, _REPORT)
        if not waits and (server["held_vcpus"] or server["held_memory_mib"]):
            message = "its quota pays for a resize that is over"
            yield Finding(f"server {server_id}", "quota", message, _REPORT)


def _held_for_move(
    thing: str, move: dict[str, Any], amounts: Mapping[str, int]
) -> Iterator[Finding]:
    old = move["old_size"]
    if old is None:
        message = f"holds {amounts} for a move of server {move['server_id']} that has ended"
        yield Finding(thing, "quota", message, _REPORT)
    elif _taken(amounts) != _size(old):
        message = f"holds {amounts}, not what server {move['server_id']} goes back to"
        yield Finding(thing, "quota", message, _REPORT)


def _taken(amounts: Mapping[str, int]) -> tuple[int, int]:
    return amounts.get("VCPU", 0), amounts.get("MEMORY_MB", 0)


def _size(server: dict[str, Any]) -> tuple[int, int]:
    return server["vcpus"], server["memory_mib"]


def _is_kept(books: Books, server_id: str, host: str) -> bool:
    """Whether a server in ERROR has something of itself at a host besides its own.

    A deletion that failed in the middle of its move leaves it so, and is asked for again.
    """
    server = books.servers.get(server_id)
    if server is None or server["vm_state"] != "error" or server["host"] == host:
        return False
    own = books.devices_by_server.get(server_id, ())
    return any(place["host"] == host for device in own for place in device["places"])


def _may_go_back(books: Books, server_id: str, host: str) -> bool:
    """Whether a server that waits for its user's word left its root disk at a host."""
    server = books.servers.get(server_id)
    if server is None or server["vm_state"] != "resized" or not server["image_id"]:
        return False
    moves = books.moves_by_server.get(server_id, ())
    return any(move["source"] == host != move["destination"] for move in moves)


def _has_disks_at(books: Books, server_id: str, host: str) -> bool:
    """Whether a server has disks of its own at a host, which may have refused to start its guest.

    A hard reboot starts it with these; whether it should run by now is seen of the guest.
    """
    server = books.servers.get(server_id)
    if server is None or server["host"] != host:
        return False
    return bool(server["image_id"] or server["swap_mib"])


def _guests(books: Books, inventory: Inventory) -> Iterator[Finding]:
    there = {guest.server_id: guest for guest in inventory.guests}
    for guest in inventory.guests:
        server = books.servers.get(guest.server_id)
        if books.is_busy(f"server:{guest.server_id}"):
            continue
        if _is_kept(books, guest.server_id, inventory.name):
            continue
        if books.owes(inventory.name, DELETE_SERVER.target(guest.server_id)):
            continue
        if server is None or server["host"] != inventory.name:
            message = f"a guest on host {inventory.name} that no server explains"
            yield Finding(f"server {guest.server_id}", "orphan", message, _REPORT)
        else:
            yield from _guest(books, server, guest)
    for server_id, server in books.servers.items():
        missing = server["host"] == inventory.name and server_id not in there
        if (
            missing
            and server["vm_state"] in _RUNNING
            and not books.is_busy(f"server:{server_id}")
            and not _is_dead(books, inventory.name)
        ):
            message = f"host {inventory.name} has no guest of it"
            advice = "openstack server reboot --hard, or delete the server."
            yield Finding(f"server {server_id}", "disagreement", message, advice)


def _nowhere(books: Books) -> Iterator[Finding]:
    """Yield the servers that are said to have a guest, and are at no host."""
    for server_id, server in books.servers.items():
        is_left = server["host"] is None and not books.is_busy(f"server:{server_id}")
        if is_left and server["vm_state"] in _RUNNING:
            message = f"{server['vm_state']}, and at no host"
            yield Finding(f"server {server_id}", "disagreement", message, "Delete it.")


def _is_dead(books: Books, host: str) -> bool:
    """Whether a host was forced down: its servers wait to be evacuated, whatever it shows."""
    row = books.hosts.get(host)
    return row is not None and bool(row["forced_down"])


def _guest(books: Books, server: dict[str, Any], guest: Guest) -> Iterator[Finding]:
    thing, wanted = f"server {guest.server_id}", _RUNNING.get(server["vm_state"])
    if wanted and guest.state != wanted and not _is_dead(books, server["host"]):
        message = f"{server['vm_state']}, and its guest is {guest.state}"
        yield Finding(thing, "disagreement", message, "The cloud notices within a minute.")
    devices = {
        device["volume_id"]: device
        for device in books.devices_by_server.get(guest.server_id, ())
        if device["volume_id"]
    }
    disks = {disk.volume_id: disk for disk in guest.disks}
    for volume_id in sorted(devices.keys() | disks.keys()):
        owed = books.owes(server["host"], UNPLUG_DISK.target(guest.server_id, volume_id))
        if not owed and not books.is_busy(f"volume:{volume_id}"):
            yield from _disk(thing, volume_id, devices.get(volume_id), disks.get(volume_id))


def _sizes(books: Books, inventory: Inventory) -> Iterator[Finding]:
    for seen in inventory.disks:
        volume_id, size = seen.volume_id, seen.size
        if books.is_busy(f"server:{seen.server_id}", f"volume:{volume_id}"):
            continue
        thing, row = f"server {seen.server_id}", books.volumes.get(volume_id)
        if size.guest_bytes != size.image_bytes:
            message = (
                f"its guest sees {size.guest_bytes} bytes of volume {volume_id}, whose image has "
                f"{size.image_bytes}"
            )
            advice = "openstack server reboot --hard shows the guest the image as it is."
            yield Finding(thing, "disagreement", message, advice)
        if row is not None and size.image_bytes != row["size_gib"] * GIB:
            message = f"volume {volume_id} of {row['size_gib']} GiB has {size.image_bytes} bytes"
            yield Finding(thing, "disagreement", message, _REPORT)


def _unread(books: Books, inventory: Inventory) -> Iterator[Finding]:
    """Yield what a host cannot read of its guests' volumes: what else is wrong nobody saw."""
    for connection in inventory.unread_connections:
        thing = f"attachment {connection.attachment_id}"
        message = f"host {inventory.name} cannot read how it is connected: {connection.why}"
        yield Finding(thing, "host", message, _KEPT)
    for unread in inventory.unread_disks:
        server_id, volume_id = unread.server_id, unread.volume_id
        if not books.is_busy(f"server:{server_id}", f"volume:{volume_id}"):
            message = f"host {inventory.name} cannot read its volume {volume_id}: {unread.why}"
            yield Finding(f"server {server_id}", "host", message, _UNREAD)


def _disk(
    thing: str, volume_id: str, device: dict[str, Any] | None, disk: Any
) -> Iterator[Finding]:
    if device is None:
        message = f"its guest has volume {volume_id}, which is not attached"
        yield Finding(thing, "orphan", message, "openstack server reboot --hard takes it away.")
    elif disk is None and device["state"] == "attached":
        message = f"its guest lacks volume {volume_id}, which is attached"
        yield Finding(thing, "disagreement", message, "openstack server reboot --hard brings it.")
    elif disk is not None and disk.attachment_id != (device["attachment_id"] or volume_id):
        message = f"its guest has volume {volume_id} by attachment {disk.attachment_id}"
        yield Finding(thing, "disagreement", message, "openstack server reboot --hard mends it.")


def _leftovers(books: Books, inventory: Inventory) -> Iterator[Finding]:
    for path in inventory.leftovers:
        # The files of a guest that is being made or removed lie in a directory of its name, and so
        # does the disk to which a server may go back.
        server_id = PurePath(path).name
        if books.owes(inventory.name, DELETE_SERVER.target(server_id)):
            continue
        if _has_disks_at(books, server_id, inventory.name):
            continue
        if _may_go_back(books, server_id, inventory.name):
            continue
        if books.is_busy(f"server:{server_id}"):
            continue
        yield Finding(path, "orphan", f"a file on host {inventory.name} of nothing", _REPORT)


def _brought(books: Books, inventory: Inventory) -> Iterator[Finding]:
    for image_id, key in inventory.brought.items():
        saga = key.partition(".")[0]
        if saga in books.living or books.owes(inventory.name, DELETE_IMAGE.target(image_id)):
            continue
        message = f"host {inventory.name} has it for operation {saga}, which has ended"
        yield Finding(f"image {image_id}", "orphan", message, _REPORT)


def _connections(books: Books, inventory: Inventory) -> Iterator[Finding]:
    known = {*books.placed, *(device["volume_id"] for device in books.devices.values())}
    for connected in inventory.connections:
        if connected.attachment_id in known or books.is_busy(f"volume:{connected.volume_id}"):
            continue
        if books.owes_end_of(inventory.name, connected.attachment_id):
            continue
        message = f"connected on host {inventory.name}, and no server has it"
        yield Finding(f"attachment {connected.attachment_id}", "orphan", message, _REPORT)
