"""Faults in volumes that several servers may have (multiattach)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

TESTS = "tests/volume/test_shared_volumes.py"
MUTANTS = [
    Mutant(
        "guests share a file whose metadata each of them writes",
        "agent/hypervisor.py",
        '        if disk.shareable and not disk.read_only and shown(disk.source)[1] != "raw":\n',
        "        if disk is None:\n",
        "tests/contract/test_shared_disks.py",
        "simulated and no_guest_shares",
    ),
    Mutant(
        "a new volume for several servers is a file as its pool has them",
        "volume/volumes/sagas/create_volume.py",
        "        format=notes.format,\n",
        "",
        TESTS,
        "stays_raw",
    ),
    Mutant(
        "a copy for several servers is a file as its new pool has them",
        "volume/migration/migrating.py",
        ", format=wanted.format",
        "",
        TESTS,
        "stays_raw",
    ),
    Mutant(
        "a volume is for several servers and its file is not",
        "volume/migration/retyping.py",
        '        fits = row.multiattach or not multiattach or file == File(row.backend, "raw")\n',
        "        fits = True\n",
        TESTS,
        "becomes_one",
    ),
    Mutant(
        "what a volume's file was in another pool is taken for what it is",
        "volume/migration/retyping.py",
        'file == File(row.backend, "raw")\n',
        'file.format == "raw"\n',
        TESTS,
        "meanwhile",
    ),
    Mutant(
        "a volume comes to the pool that it is in",
        "volume/backends/placing.py",
        "            (row.name == wanted.comes_from, _HERE),\n",
        "",
        TESTS,
        "no_other_pool",
    ),
    Mutant(
        "a type that is for several servers by now has a copy that is not",
        "volume/migration/sagas/arriving.py",
        "        if types.is_multiattach(new_type) and not notes.format:\n",
        "        if new_type is None:\n",
        TESTS,
        "in_the_middle",
    ),
]
