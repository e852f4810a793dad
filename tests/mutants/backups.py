"""Faults seeded in backups of volumes."""

from __future__ import annotations

from tests.mutants.mutant import FAILING, STEPS, Mutant

CREATING = "volume/backups/sagas/create_backup.py"
GIVEN_UP = "tests/volume/test_given_up_backups.py"
BACKUPS, STORE = "tests/volume/test_backups.py", "tests/volume/test_backup_store.py"
DIRECTORY = "volume/backups/stores/directory.py"
MUTANTS = [
    Mutant(
        "a backup that failed keeps its data",
        CREATING,
        "        undo=making.remove_data,\n",
        "",
        STEPS,
        f"{FAILING} and create_backup",
    ),
    Mutant(
        "a store that stays away keeps the volume for ever",
        CREATING,
        "        undo_attempts=BACKUP_UNDO_ATTEMPTS,\n",
        "",
        GIVEN_UP,
        "stays_away",
    ),
    Mutant(
        "a backup whose volume was reset is creating for ever",
        CREATING,
        'story=tell("create", "create_backup", absorbed=making.give_up)',
        'story=tell("create", "create_backup")',
        "tests/laws/test_heirs.py",
        "create and backup and store_data and forward and reset_status",
    ),
    Mutant(
        "the backup of a snapshot keeps its volume until all is stored",
        "volume/backups/sagas/store_backup.py",
        'exclusive(f"backup:{notes.backup_id}"),',
        'exclusive(f"backup:{notes.backup_id}"), exclusive(f"volume:{notes.volume_id}"),',
        BACKUPS,
        "lets_its_volume_go",
    ),
    Mutant(
        "a reset lets go of a volume that its host still copies into",
        "volume/volumes/sagas/reset_status.py",
        '    Step("end_copy", end_copy, may_be_forgone=True),\n',
        "",
        GIVEN_UP,
        "until_its_host",
    ),
    Mutant(
        "new content takes the place of a file that was given to a guest meanwhile",
        "agent/drivers/file_volumes.py",
        "            await run_to_end(lambda: self._take_place(known, written, path))\n",
        "            await run_to_end(lambda: files.finish(written, path))\n",
        "tests/contract/test_replaced_content.py",
        "keeps_its_file",
    ),
    Mutant(
        "a backup goes into a volume that is too small for it",
        "volume/backups/restoring.py",
        "    if row.size_gib < backup.size_gib:\n",
        "    if row.size_gib > 10 * backup.size_gib:\n",
        BACKUPS,
        "does_not_fit",
    ),
    Mutant(
        "what was brought to restore it stays in the host's cache",
        "volume/backups/sagas/restore_backup.py",
        '    Step("remove_brought", remove_brought, may_be_forgone=True),\n',
        "",
        BACKUPS,
        "volume_that_is_named",
    ),
    Mutant(
        "the doctor passes data by that no backup explains",
        "doctor/backups.py",
        "        if backup_id not in books.backups and",
        "        if backup_id in books.backups and",
        "tests/volume/test_backup_lists.py",
        "no_backup_explains",
    ),
    Mutant(
        "a removal that was killed is never finished",
        DIRECTORY,
        "            if leaving.exists():\n",
        "            if leaving.exists() and folder.exists():\n",
        STORE,
        "killed",
    ),
    Mutant(
        "who comes late writes to a deleted backup",
        DIRECTORY,
        "        def put_piece() -> None:\n            if not path.exists()",
        "        def put_piece() -> None:\n            path.parent.mkdir(exist_ok=True)\n"
        "            if not path.exists()",
        STORE,
        "nobody_writes",
    ),
    Mutant(
        "who comes late leaves a piece of a deleted backup in S3",
        "volume/backups/stores/s3.py",
        "            self._require_begun(backup_id, name)\n\n        await self._run(put_piece)",
        "\n        await self._run(put_piece)",
        STORE,
        "nobody_writes and s3",
    ),
    Mutant(
        "a service of S3 that trickles holds its thread for ever",
        "volume/backups/stores/s3.py",
        "                if time.monotonic() > ends_at:\n",
        "                if time.monotonic() < ends_at - limits.S3_READ_S:\n",
        "tests/volume/test_s3_store.py",
        "too_slowly",
    ),
    Mutant(
        "a bucket that is not there has lost what was begun",
        "volume/backups/stores/s3.py",
        "        self._require_bucket()\n        if put:\n",
        "        if put:\n",
        "tests/volume/test_s3_store.py",
        "told_so",
    ),
    Mutant(
        "pieces end where they stand, so that all behind a new cluster are others",
        "volume/backups/pieces.py",
        "            is_last = end >= LEAST_BYTES and self._ends_at(end)\n",
        "            is_last = False\n",
        "tests/volume/test_incremental_backups.py",
        "only_what_changed",
    ),
    Mutant(
        "a backup goes that others build on",
        "volume/backups/backups.py",
        "        if backup_rows.count_dependents(tx, row.id):\n",
        "        if backup_rows.count_dependents(tx, row.id) and not force:\n",
        "tests/volume/test_incremental_backups.py",
        "stays_as_long",
    ),
    Mutant(
        "the size of backups is no matter of quota",
        "volume/quotas/quota.py",
        "used_gib + size_gib > most_gib",
        "used_gib > most_gib",
        "tests/volume/test_backup_lists.py",
        "two_quotas",
    ),
]
