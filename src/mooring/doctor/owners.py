"""Every transitional status has a living owner: an operation, or a borrower that may return."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from mooring.compute.moves.migrations import FINISHED
from mooring.doctor.books import Books
from mooring.doctor.findings import Finding
from mooring.volume.volumes.statuses import BORROWED, OWNED

UPLOAD_SILENT_FOR = timedelta(minutes=5)
"""Many times the beat of whoever receives an image's data."""

BORROWED_FOR = timedelta(minutes=15)
"""Longer than the ten minutes after which the volume service settles what was left behind."""

_RESET = "openstack volume set --state takes it back, and goes by what the storage has."
_SEE = "openstack server set --state active sees where the guest is, and ends the move."
_RETRY = "Start the cloud; what it does not mend within a minute is a bug worth reporting."


def look(books: Books) -> Iterator[Finding]:
    """Yield what has no owner, and operations that cannot end by themselves."""
    yield from _operations(books)
    yield from _servers(books)
    yield from _moves(books)
    yield from _devices(books)
    yield from _volumes(books)
    yield from _attachments(books)
    yield from _reservations(books)
    yield from _images(books)
    yield from _fencings(books)


def _operations(books: Books) -> Iterator[Finding]:
    for work in books.work:
        thing = f"operation {work.id}"
        if not work.is_known:
            message = f"{work.name} version {work.version} is not known to this release"
            advice = "Run the release that started it until it has ended."
            yield Finding(thing, "operation", message, advice)
        elif work.stuck:
            message = f"{work.name} has been tried for more than an hour"
            advice = (
                f"See why: mooring operations show {work.id}. What waits for a host that is gone "
                f"for good ends by mooring operations abort {work.id}"
            )
            yield Finding(thing, "operation", message, advice)


def _servers(books: Books) -> Iterator[Finding]:
    for server_id, server in books.servers.items():
        moving = server["task_state"] or (server["vm_state"] == "building")
        if moving and not books.is_busy(f"server:{server_id}"):
            state = f"vm_state {server['vm_state']}, task_state {server['task_state']}"
            yield Finding(f"server {server_id}", "owner", f"{state}, and no operation", _RETRY)


def _moves(books: Books) -> Iterator[Finding]:
    for move_id, move in books.moves.items():
        server_id, status = move["server_id"], move["status"]
        server = books.servers.get(server_id)
        may_wait = server is not None and server["vm_state"] in {"resized", "error"}
        if books.is_busy(f"server:{server_id}") or (status == FINISHED and may_wait):
            continue
        message = f"its move {move_id} is {status}, and no operation"
        yield Finding(f"server {server_id}", "owner", message, _SEE)


def _devices(books: Books) -> Iterator[Finding]:
    for device in books.devices.values():
        keys = (f"server:{device['server_id']}", f"volume:{device['volume_id']}")
        if device["state"] == "attached" or books.is_busy(*keys):
            continue
        if device["server_id"] in books.servers and _is_idle_local(device):
            continue
        message = f"its block device {device['id']} is {device['state']}, and no operation"
        yield Finding(f"server {device['server_id']}", "owner", message, _RETRY)


def _is_idle_local(device: dict[str, object]) -> bool:
    """Whether this is a disk on the host itself, or one of a server that never was built."""
    return device["destination_type"] == "local" or not device["attachment_id"]


def _volumes(books: Books) -> Iterator[Finding]:
    # Who attaches without a server, to a host of their own, may take as long as they like; so may
    # whoever has to mend a cause before a server is rebuilt again.
    patient = {row["volume_id"] for row in books.attachments.values() if not row["server_id"]}
    devices = books.devices.values()
    patient |= {row["volume_id"] for row in devices if books.waits_for_rebuild(row)}
    # So may a server that was put away.
    patient |= {row["volume_id"] for row in devices if books.waits_for_host(row)}
    for volume_id, volume in books.volumes.items():
        if books.is_busy(f"volume:{volume_id}"):
            continue
        status, since = volume["status"], volume["borrowed_at"]
        if status in OWNED or (status in BORROWED and since is None):
            yield Finding(f"volume {volume_id}", "owner", f"{status}, and no operation", _RETRY)
        elif status not in BORROWED or volume_id in patient:
            continue
        elif books.at - since > BORROWED_FOR:
            message = f"{status} on behalf of user {volume['borrowed_by']} since {since}"
            yield Finding(f"volume {volume_id}", "owner", message, _RETRY)


def _reservations(books: Books) -> Iterator[Finding]:
    for row in books.reservations.values():
        thing = f"volume {row['volume_id']}"
        if row["saga_id"] not in books.living and not books.is_busy(thing.replace(" ", ":")):
            message = f"{row['delta_gib']} GiB are reserved for it, and no operation"
            yield Finding(thing, "quota", message, _RESET)
    for volume_id, row in books.volumes.items():
        waits = row["extend_new_size"] is not None or row["extend_event"] is not None
        if waits and not books.is_busy(f"volume:{volume_id}"):
            message = "it waits for the completion of an extend, and no operation"
            yield Finding(f"volume {volume_id}", "owner", message, _RESET)


def _attachments(books: Books) -> Iterator[Finding]:
    for attachment_id, row in books.attachments.items():
        if row["saga_id"] and row["saga_id"] not in books.living:
            message = f"it waits for operation {row['saga_id']}, which has ended"
            yield Finding(f"attachment {attachment_id}", "owner", message, _RETRY)


def _images(books: Books) -> Iterator[Finding]:
    for image_id, image in books.images.items():
        if image["status"] == "saving" and image_id not in books.uploads:
            message = "saving, and nobody receives its data"
            yield Finding(f"image {image_id}", "owner", message, _RETRY)
    for image_id, upload in books.uploads.items():
        silent_for = books.at - upload["beat_at"]
        if silent_for > UPLOAD_SILENT_FOR:
            message = (
                f"process {upload['owner']} was to receive its data, and has not been heard of"
            )
            yield Finding(f"image {image_id}", "owner", message, _RETRY)


def _fencings(books: Books) -> Iterator[Finding]:
    for host, row in books.fencings.items():
        if row["status"] == "fencing" and not books.is_busy(f"host:{host}"):
            message = f"it is being fenced since {row['started_at']}, and no operation"
            yield Finding(f"host {host}", "owner", message, _RETRY)
