"""Faults seeded in evacuations: on what proof they begin, and what the dead host still has."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SAGA = "compute/moves/sagas/evacuate.py"
RULE, MIGRATIONS = "compute/moves/evacuating.py", "compute/moves/migrations.py"
TESTS = "tests/compute/test_evacuation.py"

MUTANTS = [
    Mutant(
        "a server that was evacuated in vain does not say what to do",
        SAGA,
        "_told = tell(_describe, state=say_where)\n",
        "_told = tell(_describe)\n",
        "tests/compute/test_faults_told.py",
        "evacuation_that_fails_at_its_end",
    ),
    Mutant(
        "a server does not say that its volumes are still attached at the dead host",
        SAGA,
        "one.attachment_id and one.attachment_id not in notes.gone",
        "one.attachment_id in notes.gone",
        "tests/compute/test_faults_told.py",
        "says_where_else_the_volumes_are",
    ),
    Mutant(
        "hidden moves are all moves",
        "compute/moves/migration_list.py",
        "    if query.hidden:\n",
        "    if query.hidden is None:\n",
        "tests/compute/test_moves_refused.py",
        "no_move_is_hidden",
    ),
    Mutant(
        "a host that is silent counts as dead",
        RULE,
        "    if not host.forced_down:\n",
        "    if host.forced_down is None:\n",
        TESTS,
        "silent_host",
    ),
    Mutant(
        "nobody ends the guest that a dead host may still have",
        SAGA,
        "    await guests.destroy(run, notes.source, notes.server_id)\n",
        "    del notes, run\n",
        TESTS,
        "pays_before",
    ),
    Mutant(
        "the guest starts while the dead host still may have its volumes",
        SAGA,
        '    leaving.LEFT,\n    Step("start_there", start_there, deadline_s=900.0),\n',
        '    Step("start_there", start_there, deadline_s=900.0),\n    leaving.LEFT,\n',
        TESTS,
        "before_the_guest_starts",
    ),
    Mutant(
        "an image that the old guest has is not waited for",
        SAGA,
        "        raise Unavailable(\n",
        "        raise Conflict(\n",
        "tests/compute/test_late_ends.py",
        "waited_for",
    ),
    Mutant(
        "a host is up again that may have the guests of evacuated servers",
        "compute/hosts/host_changes.py",
        "            _require_paid(tx, host)\n",
        "            pass\n",
        TESTS,
        "while_it_lasts",
    ),
    Mutant(
        "a server that was stopped is started where it is evacuated to",
        RULE,
        '    return server.vm_state == "stopped" or ',
        "    return ",
        TESTS,
        "stopped_server",
    ),
    Mutant(
        "a record of an evacuation never ends",
        MIGRATIONS,
        '            change(tx, row_id, now, status="completed")\n',
        "            del row_id\n",
        TESTS,
        "pays_before",
    ),
    Mutant(
        "one guest has an image that another one writes to",
        "agent/simulated_pool.py",
        "        if not (shareable and shares)\n",
        "        if shares\n",
        "tests/compute/test_late_ends.py",
        "waited_for",
    ),
]
