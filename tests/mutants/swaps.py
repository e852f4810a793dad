"""Faults seeded in swaps of volumes: what a guest, a row or a volume would lose by them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

STEPS_OF, NOTES = "compute/volumes/mirroring.py", "compute/volumes/sagas/swap_notes.py"
STARTS = "tests/agent/test_copy_starts.py"
SWAPS, ENDS = "tests/compute/test_swap_volume.py", "tests/compute/test_swap_ends.py"

MUTANTS = [
    Mutant(
        "a volume that is retyping is swapped",
        "compute/volumes/swapping.py",
        '        if moving or volume.status == "retyping":\n',
        "        if moving:\n",
        "tests/compute/test_spec_001_swap.py",
        "neither_volume_is_retyping",
    ),
    Mutant(
        "a guest writes on while QEMU does not note it yet",
        "agent/libvirt/copy_starts.py",
        "            domain.suspend()\n",
        "",
        STARTS,
        "stands_still_while",
    ),
    Mutant(
        "a copy that may miss something outlives its agent",
        "agent/libvirt/copy_starts.py",
        "domain.blockJobInfo(device, 0) and not _is_begun(domain, device)",
        "not domain.blockJobInfo(device, 0)",
        STARTS,
        "its_agent_left",
    ),
    Mutant(
        "a guest is switched to a volume that is not in step",
        STEPS_OF,
        "    if not found.in_step:\n",
        "    if not found.size_bytes:\n",
        SWAPS,
        "asked_of_the_volume_service",
    ),
    Mutant(
        "the old volume stays the disk's in the books",
        NOTES,
        '{"volume_id": notes.new_volume_id, "source_type"',
        '{"source_type"',
        SWAPS,
        "takes_the_place",
    ),
    Mutant(
        "a volume that was made smaller for a copy stays so",
        "agent/connections.py",
        "        if known is not None and known.full_bytes:\n",
        "        if known is None:\n",
        ENDS,
        "leaves_everything_as_it_was",
    ),
    Mutant(
        "a simulated guest goes on with a copy that is not there",
        "agent/simulated_mirrors.py",
        "            raise copy_ended(server_id, volume_id)\n        size_bytes, in_step",
        "            return Mirroring(copied_bytes=1, size_bytes=1, in_step=True)\n"
        "        size_bytes, in_step",
        "tests/contract/test_swaps.py",
        "that_is_stopped and simulated",
    ),
    Mutant(
        "one of two volumes is freed before anybody knows which the guest has",
        "compute/volumes/sagas/swap_ends.py",
        '    Step("stop_copy", end_copy),\n',
        '    Step("stop_copy", end_copy, undo_attempts=12),\n',
        ENDS,
        "falls_silent",
    ),
]
