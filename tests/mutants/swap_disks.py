"""Faults seeded in swap disks of servers: where they are made, and where they are let go."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CONTRACT, API = "tests/contract/test_swap_disks.py", "tests/compute/test_swap_disks.py"

MUTANTS = [
    Mutant(
        "a swap disk keeps its former size",
        "agent/swap_disks.py",
        "    if not path.exists() or path.stat().st_size != size_bytes:\n",
        "    if not path.exists():\n",
        CONTRACT,
        "simulated and as_large_as",
    ),
    Mutant(
        "the swap disk of a guest that is to have none stays",
        "agent/servers.py",
        "    if plan.swap is None:\n",
        "    if plan.swap is not None and not plan.swap.size_bytes:\n",
        CONTRACT,
        "simulated and as_large_as",
    ),
    Mutant(
        "a guest runs on elsewhere without what it put aside",
        "agent/simulated_roots.py",
        "        if guest.swap_bytes:\n",
        "        if not guest.swap_bytes:\n",
        API,
        "takes_it_along",
    ),
    Mutant(
        "a guest is sent to a host without its swap disk",
        "agent/move_checks.py",
        "    if guest.swap_mib and not arrival.swap:\n",
        "    if guest.swap_mib and not arrival.address:\n",
        CONTRACT,
        "simulated and runs_on_elsewhere",
    ),
    Mutant(
        "another size comes with the former swap disk",
        "compute/moves/sagas/switching.py",
        "        swap_mib=size.swap_mib,\n",
        "",
        API,
        "comes_with_another",
    ),
    Mutant(
        "a swap disk stays behind where nobody asked for block migration",
        "compute/moves/checks.py",
        "    if wanted is False and (server.image_id or server.swap_mib):\n",
        "    if wanted is False and server.image_id:\n",
        API,
        "by_block_migration_only",
    ),
    Mutant(
        "a server stays on a host that makes no swap disks",
        "compute/hosts/guests.py",
        "    if guest.swap_mib != spec.swap_mib:\n",
        "    if guest.swap_mib > spec.swap_mib:\n",
        API,
        "makes_none",
    ),
]
