"""Faults seeded in putting servers away: what they keep, give back, and come back with."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

OFFLOAD = "compute/shelve/sagas/offload_server.py"
ROOM, ROOM_TESTS = "compute/shelve/sagas/shelved_room.py", "tests/compute/test_shelved_room.py"
WAITING, RULE = "compute/shelve/sagas/waiting_volumes.py", "compute/shelve/shelving.py"
TESTS, DISKS = "tests/compute/test_shelve.py", "tests/compute/test_shelve_disks.py"

MUTANTS = [
    Mutant(
        "a server whose root disk is gone is told to be reset",
        "compute/shelve/sagas/shelve_notes.py",
        "        if notes.was_off\n        else",
        "        if not notes.host\n        else",
        "tests/compute/test_faults_told.py",
        "root_disk_is_gone",
    ),
    Mutant(
        "a server at no host is active after a reset",
        "compute/power/sagas/reset_state.py",
        '    elif vm_state == "active" and server.host is None:\n',
        '    elif vm_state == "gone" and server.host is None:\n',
        "tests/compute/test_shelve.py",
        "reset_while_it_is_away and sqlite",
    ),
    Mutant(
        "a reset does not look whether an unshelving made the guest",
        "compute/power/sagas/reset_state.py",
        "find_missing(run, notes.server_id) if notes.task else",
        "find_missing(run, notes.server_id) if notes.deleting else",
        "tests/compute/test_reset_unheard.py",
        "brought_back and sqlite",
    ),
    Mutant(
        "a reset holds no room again that an offload had given back",
        "compute/power/sagas/reset_state.py",
        'frozenset({"deleting", "shelving_offloading"})',
        'frozenset({"deleting"})',
        "tests/compute/test_reset_room.py",
        "sqlite",
    ),
    Mutant(
        "a user ends what keeps a volume for a server that is away",
        "volume/attachments/guard.py",
        "    may_end = row.connection is None and who.is_admin\n",
        "    may_end = row.connection is None\n",
        TESTS,
        "nobody_but_an_administrator",
    ),
    Mutant(
        "what a server that is away has is deleted by force",
        "volume/volumes/deleting.py",
        ' == "attached", AttachmentRow.server_id.is_not(None)),\n',
        ' == "attached", AttachmentRow.server_id == ""),\n',
        TESTS,
        "nobody_but_an_administrator",
    ),
    Mutant(
        "a server that was put away still takes room",
        ROOM,
        "    await run.service.placement.release(notes.server_id, operation=run.operation)\n",
        "    del notes, run\n",
        TESTS,
        "takes_no_room",
    ),
    Mutant(
        "one whose host and volumes let go of it is in error when its room was not given back",
        "compute/shelve/sagas/shelve_notes.py",
        "    return notes.is_gone and all(",
        "    return notes.is_leaving and not notes.is_gone and all(",
        ROOM_TESTS,
        "away_all_the_same and sqlite",
    ),
    Mutant(
        "its room is asked for once",
        ROOM,
        "    if not has_left(notes):\n",
        "    if has_left(notes):\n",
        ROOM_TESTS,
        "second_try and sqlite",
    ),
    Mutant(
        "the doctor knows nothing of room that is held for a server at no host",
        "doctor/agreement.py",
        '        elif not server["host"] and server',
        '        elif not server["id"] and server',
        ROOM_TESTS,
        "away_all_the_same and sqlite",
    ),
    Mutant(
        "what waits already has to be let go by the host once more",
        RULE,
        "        if any(place.host == host for place in disk_places.of_device(tx, row.id))\n",
        "        if host\n",
        TESTS,
        "waits_already",
    ),
    Mutant(
        "a volume that comes back away stays connected to the host that failed",
        WAITING,
        "    await disks.leave(run, old)\n    await reservations",
        "    await reservations",
        TESTS,
        "where_no_host_can_have_it",
    ),
    Mutant(
        "a zone is for this time only",
        RULE,
        "        if zone is not UNSET:\n",
        "        if zone is UNSET:\n",
        TESTS,
        "in_the_zone",
    ),
    Mutant(
        "the first spare attachment stays where a second one is refused",
        OFFLOAD,
        "undo=disks.Steps(nowhere).free",
        "undo=None",
        TESTS,
        "volume_service_that_refuses",
    ),
    Mutant(
        "the image of a server that was put away outlives it",
        "compute/delete/sagas/delete_server.py",
        '    Step("delete_image", old_image.delete, may_be_forgone=True),\n',
        "",
        DISKS,
        "goes_with_a_server",
    ),
    Mutant(
        "a disk that came back is taken for a layer over the server's image",
        "agent/simulated_moves.py",
        'image_id="" if self._stands_alone(server_id) else guest.image_id',
        "image_id=guest.image_id",
        DISKS,
        "its_disk_moves_afterwards",
    ),
    Mutant(
        "a server is taken from its host whatever the setting says",
        "compute/shelve/loops/offload_shelved.py",
        "        Server.shelved_at <= since,\n",
        "        Server.shelved_at.is_not(None),\n",
        DISKS,
        "for_as_long_as",
    ),
]
