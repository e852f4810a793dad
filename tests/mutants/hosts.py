"""Faults seeded in what keeps a silent host from holding up the others."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

BULKHEADS = "tests/saga/test_bulkheads.py"

MUTANTS = [
    Mutant(
        "whoever asks a host keeps a slot",
        "bulkhead.py",
        "                stack.enter_context(effort.away(at_host=True))\n",
        "                stack.callback(str)\n",
        BULKHEADS,
        "forty_calls and sqlite",
        hangs=True,
    ),
    Mutant(
        "a silent host is asked by all at once",
        "bulkhead.py",
        "        if self._asker is not None:\n            raise self.refusal()\n",
        "",
        BULKHEADS,
        "asked_by_one and sqlite",
    ),
    Mutant(
        "nobody is called back when a host answers",
        "bulkhead.py",
        "        for effort in callers:\n            effort.answers()\n",
        "        del callers\n",
        BULKHEADS,
        "asked_by_one and sqlite",
    ),
    Mutant(
        "who was turned away has tried",
        "saga/teller.py",
        "        mark.attempts = max(0, mark.attempts - 1)\n        if hindrance.since is None:",
        "        if hindrance.since is None:",
        BULKHEADS,
        "asked_by_one and sqlite",
    ),
    Mutant(
        "a task that outlives its step keeps a slot for ever",
        "saga/slots.py",
        "            if self._away == 0 and not self._has_ended:\n",
        "            if self._away == 0:\n",
        BULKHEADS,
        "outlives_its_step and sqlite",
        hangs=True,
    ),
    Mutant(
        "who is cancelled in the row takes the place along",
        "bulkhead.py",
        "            if self._withdraw(turn):\n                self.leave()\n",
        "            self._withdraw(turn)\n",
        BULKHEADS,
        "cancelled_in_the_row",
    ),
    Mutant(
        "a snapshot that is seen still refuses what its server is asked",
        "compute/snapshots/sagas/snapshot_volume.py",
        '    visible_after="report_created",\n',
        "",
        "tests/compute/test_assisted_snapshots.py",
        "free_as_soon and stop",
    ),
]
