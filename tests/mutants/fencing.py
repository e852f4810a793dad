"""Faults in how hosts are ended for certain."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

FENCING, FENCES = "tests/compute/test_fencing.py", "tests/compute/test_host_fences.py"
ALONE = "tests/compute/test_fencing_alone.py"
RULE, SAGA = "compute/hosts/fencing.py", "compute/hosts/sagas/fence_host.py"

MUTANTS = [
    Mutant(
        "a command that fails counts as proof",
        "host_fence.py",
        "        if code:\n            ending",
        "        if code < 0:\n            ending",
        FENCES,
        "says_why",
    ),
    Mutant(
        "a command that takes too long leaves what it started",
        "process_groups.py",
        "        os.killpg(check_pid(pid), signal.SIGKILL)\n",
        "        os.kill(check_pid(pid), signal.SIGKILL)\n",
        FENCES,
        "with_all_it_started",
    ),
    Mutant(
        "the beginning of what a command says is kept",
        "host_fence.py",
        "        del self._kept[:-FENCE_OUTPUT_BYTES]\n",
        "        del self._kept[FENCE_OUTPUT_BYTES:]\n",
        FENCES,
        "the_end_is_told",
    ),
    Mutant(
        "a host is fenced whose agent answers badly",
        RULE,
        "        if not _says_something(compute, name):\n",
        "        if _says_something is not None:\n",
        ALONE,
        "answers_badly",
    ),
    Mutant(
        "a host that answers is fenced without a further word",
        RULE,
        "        if _answers(compute, known) and not force:\n",
        "        if _answers(compute, known) and force is None:\n",
        FENCING,
        "only_when_that_is_meant",
    ),
    Mutant(
        "a host is fenced anew while it is being fenced",
        RULE,
        "        if at_work := compute.sagas.holders(tx, lock_of(host)):\n",
        "        if at_work := compute.sagas.holders(tx, host):\n",
        FENCING,
        "waited_for_by_the_next",
    ),
    Mutant(
        "all hosts are fenced when the control plane is cut off",
        RULE,
        "    if due and sum(heard.values()) * 2 < len(heard):\n",
        "    if due and not heard:\n",
        ALONE,
        "cut_off",
    ),
    Mutant(
        "a host is fenced again and again in one silence",
        RULE,
        "    if host.forced_down or is_said_to_live:\n",
        "    if host.forced_down:\n",
        ALONE,
        "by_itself_once",
    ),
    Mutant(
        "a host that answers again before its turn is fenced",
        SAGA,
        "    if not notes.silent_s or not await _answers(notes, run):\n",
        "    if notes.silent_s >= 0:\n",
        ALONE,
        "before_its_turn",
    ),
    Mutant(
        "a fence that fails is tried again at once",
        RULE,
        "    times = 2 ** min(last.failures - 1, _DOUBLINGS)\n",
        "    times = 0 * min(last.failures - 1, _DOUBLINGS)\n",
        ALONE,
        "ever_more_rarely",
    ),
    Mutant(
        "a process that stood still takes its hosts for silent",
        "compute/hosts/silence.py",
        "        step = min(monotonic - self._looked, LONGEST_STEP_S)\n",
        "        step = monotonic - self._looked\n",
        ALONE,
        "no_silence",
    ),
    Mutant(
        "a host that is being fenced may be forgotten",
        "compute/hosts/host_changes.py",
        "    if fencings.lasts(tx, host.name):\n        raise",
        "    if not host.name:\n        raise",
        FENCING,
        "waited_for_by_the_next",
    ),
    Mutant(
        "an administrator's word takes the place of a proof",
        "compute/hosts/host_changes.py",
        "        if changes.forced_down and not host.forced_down:\n",
        "        if changes.forced_down:\n",
        FENCING,
        "until_that_is_lifted",
    ),
    Mutant(
        "a fence that failed leaves the host as being fenced",
        SAGA,
        '    Step("begin", begin, give_up),\n',
        '    Step("begin", begin),\n',
        FENCING,
        "changes_nothing_and_says_why",
    ),
]
