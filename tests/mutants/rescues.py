"""Faults in rescues."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_FAILURES, _CONTRACT = "tests/compute/test_rescue_failures.py", "tests/contract/test_rescue.py"
MUTANTS = [
    Mutant(
        "a guest keeps the disk of a rescue when it is started from its own",
        "agent/simulated.py",
        "            drop_rescue(self.guest_directory / server_id)\n\n    async def make_rescue(",
        "            pass\n\n    async def make_rescue(",
        _CONTRACT,
        "is_off and simulated",
    ),
    Mutant(
        "a guest that runs from a rescue disk is offered to other hosts",
        "agent/rescues.py",
        "    if rescue_image_id:\n",
        "    if not server_id:\n",
        _CONTRACT,
        "no_other_host and simulated",
    ),
    Mutant(
        "a server whose guest is still in rescue is called active",
        "compute/rescue/sagas/rescue_steps.py",
        "    if notes.in_rescue:\n",
        "    if not notes.host:\n",
        _FAILURES,
        "an_unrescue_that",
    ),
    Mutant(
        "a rescue that fails leaves the guest as it came to be",
        "compute/rescue/sagas/rescue_server.py",
        "        await _set_power(notes, run, request)\n    return replace",
        "    return replace",
        _FAILURES,
        "own_disks_back",
    ),
    Mutant(
        "a server that boots from a volume is rescued by what knows nothing of it",
        "compute/rescue/rescue_requests.py",
        "    if not server.image_id and not may_boot_from_volume:\n",
        "    if not server.image_id and not server.id:\n",
        "tests/compute/test_rescue.py",
        "from_287_on",
    ),
    Mutant(
        "an older agent is asked for a device that it does not know",
        "compute/rescue/rescue_requests.py",
        "    _check_bus(place.host, server, plan)\n",
        "",
        "tests/compute/test_rescue.py",
        "an_agent_of_an_older_release",
    ),
]
