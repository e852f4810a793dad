"""Faults in volumes that several servers may have (multiattach)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

TESTS = "tests/volume/test_shared_volumes.py"
COPIES, SNAPSHOTS = (
    "tests/contract/test_copied_snapshots.py",
    "tests/volume/test_shared_snapshots.py",
)
MUTANTS = [
    Mutant(
        "guests share a file whose metadata each of them writes",
        "agent/disk_checks.py",
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
    Mutant(
        "a file is copied that a guest writes to meanwhile",
        "agent/drivers/file_copies.py",
        "        if told:\n",
        "        if told and not shows_locks:\n",
        COPIES,
        "takes_reflinks and raw",
    ),
    Mutant(
        "a file that was written to while it was copied is a snapshot",
        "agent/drivers/file_copies.py",
        "        if await self._run(look) != before:\n",
        "        if not before:\n",
        COPIES,
        "written_to_meanwhile",
    ),
    Mutant(
        "where nobody sees the locks nobody is said to write",
        "agent/drivers/file_copies.py",
        "        is_known = shows_locks and told is not None\n",
        "        is_known = told is not None\n",
        COPIES,
        "takes_reflinks and quobyte",
    ),
    Mutant(
        "a copy is taken to be older than the overlays that it was taken of",
        "agent/drivers/chains.py",
        "        if len(self.layers) > 1 or self.pending is not None:\n",
        "        if self.pending is not None:\n",
        COPIES,
        "overlays_come_above and simulated",
    ),
    Mutant(
        "behind a snapshot one server alone can have a volume of several",
        "volume/snapshots/snapshots.py",
        "    if row.multiattach:\n",
        '    if row.multiattach and row.status == "in-use":\n',
        SNAPSHOTS,
        "of_a_free_volume",
    ),
    Mutant(
        "a copy does not go while several servers have its volume",
        "volume/snapshots/uses.py",
        "    if volume.multiattach:\n",
        '    if volume.multiattach and volume.status == "available":\n',
        SNAPSHOTS,
        "of_two_servers",
    ),
    Mutant(
        "a volume for several servers with snapshots stays of its type",
        "volume/migration/retyping.py",
        " and not row.multiattach\n    if becomes_shared",
        "\n    if becomes_shared",
        SNAPSHOTS,
        "no_more_for_several",
    ),
]
