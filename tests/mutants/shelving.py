"""Faults seeded in putting servers away: what they keep, give back, and come back with."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

OFFLOAD = "compute/shelve/sagas/offload_server.py"
WAITING, RULE = "compute/shelve/sagas/waiting_volumes.py", "compute/shelve/shelving.py"
TESTS = "tests/compute/test_shelve.py"

MUTANTS = [
    Mutant(
        "a server that was put away still takes room",
        OFFLOAD,
        "    await run.service.placement.release(notes.server_id, operation=run.operation)\n",
        "    del notes, run\n",
        TESTS,
        "takes_no_room",
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
        "    await disks.leave(run, old)\n    operation",
        "    operation",
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
        "a guest that cannot be switched off loses its volumes' spares in vain",
        OFFLOAD,
        "undo=disks.Steps(nowhere).free",
        "undo=None",
        TESTS,
        "cannot_be_switched_off",
    ),
]
