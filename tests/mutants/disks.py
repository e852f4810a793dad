"""Faults seeded in the disks of servers: how one is given to a host, and taken back."""

from __future__ import annotations

from tests.mutants.mutant import FAILING, STEPS, Mutant

DISKS, PLACES = "compute/volumes/disks.py", "compute/volumes/disk_places.py"
ATTACH, DETACH = "tests/compute/test_attach_volume.py", "tests/compute/test_detach_volume.py"
TWICE, CREATE = "tests/compute/test_disk_places.py", "tests/compute/test_create_server.py"
READY = "tests/compute/test_volume_ready.py"

MUTANTS = [
    Mutant(
        "a disk that is taken back stays connected",
        DISKS,
        "disk.volume_id, disk.connection_id, operation=run.operation",
        "disk.volume_id, operation=run.operation",
        STEPS,
        f"{FAILING} and attach_volume and complete",
    ),
    Mutant(
        "a disk stays in the guest it was given to",
        DISKS,
        "        await take(where[-1], self._find(notes, *where[:-1]))\n",
        "        del where\n",
        STEPS,
        f"{FAILING} and attach_volume and complete",
    ),
    Mutant(
        "a host keeps what its guest let go of",
        DISKS,
        '    await guests.take_back(run, disk.host, f"/connections/{name}", verb)\n',
        "    del verb\n",
        DETACH,
        "makes_the_server_error",
    ),
    Mutant(
        "an attachment outlives its use",
        DISKS,
        "delete_attachment(None, disk.attachment_id, operation=operation or run.operation)",
        "show_attachment(None, disk.attachment_id)",
        DETACH,
        "available_and_unknown",
    ),
    Mutant(
        "the volume service never hears that the guest has the volume",
        DISKS,
        'await volumes.complete_attachment(None, disk.attachment_id or "", operation',
        'await volumes.show_attachment(None, disk.attachment_id or "")\n    dict(operation',
        ATTACH,
        "in_use_and_in_the_guest",
    ),
    Mutant(
        "a volume that its host holds on to looks free",
        DISKS,
        "        await completing\n",
        "        completing.close()\n",
        ATTACH,
        "failed_unwinding",
    ),
    Mutant(
        "what is known of a volume counts as made by the operation",
        PLACES,
        "    return set(_of_volume.all(tx, of_volume=volume_id))\n",
        "    return set()\n",
        TWICE,
        "own_work",
    ),
    Mutant(
        "a volume that is ready is found by looking alone",
        DISKS,
        "signal=journal.word_for(run.saga_id)",
        'signal=""',
        READY,
        "is_told",
    ),
    Mutant(
        "a volume that has no data yet is given",
        DISKS,
        "    if volume.status in _NOT_READY:\n",
        "    if not volume.status:\n",
        CREATE,
        "are_made_for_the_server",
    ),
    Mutant(
        "a second host keeps the volume",
        PLACES,
        "    return here, [place for place in there if place != here]\n",
        "    return here, []\n",
        TWICE,
        "detached_in_both",
    ),
    Mutant(
        "a server shows the attachment of another host",
        "compute/tables/__init__.py",
        'func.coalesce(Server.host, "")).desc()',
        'func.coalesce(Server.host, "")).asc()',
        TWICE,
        "place_it_runs_in",
    ),
    Mutant(
        "volumes of a new server stay nowhere",
        PLACES,
        "        change(tx, block_device_id, NOWHERE, now, host=host)\n",
        "        pass\n",
        TWICE,
        "new_server",
    ),
    Mutant(
        "a guest that has let a disk go gets it again",
        DISKS,
        "run.error.detail.get(RELEASED)",
        "run.error.detail.get(not RELEASED)",
        DETACH,
        "does_not_let_go_after",
    ),
    Mutant(
        "a copy that a failed deletion left is never freed",
        "compute/volumes/sagas/release_device.py",
        "            if anew is None:\n",
        "            if anew is not None:\n",
        "tests/compute/test_migrated_ends.py",
        "keeps_the_copy_of and sqlite and far-3",
    ),
    Mutant(
        "a deletion that failed at once keeps the room of a move",
        "compute/delete/sagas/delete_server.py",
        "    return notes if notes.has_looked or not server else _look_around(tx, notes, server)\n",
        "    return notes\n",
        STEPS,
        f"{FAILING} and compute.delete_server/find_belongings/forward/before",
    ),
    Mutant(
        "a reset leaves what a migration was exported for meanwhile",
        "volume/attachments/connections.py",
        "    return sorted({*known, *found})\n",
        "    return sorted(known)\n",
        "tests/laws/test_stubborn.py",
        "use-1-reset",
    ),
    Mutant(
        "a volume waits for a word that was refused",
        "compute/volumes/sagas/migrated.py",
        "        if copy is not None and copy.status != _GIVEN_UP:\n",
        "        if copy is None and notes is None:\n",
        "tests/compute/test_migrated_ends.py",
        "not_take and sqlite-409",
    ),
]
