"""Faults seeded in backups of volumes."""

from __future__ import annotations

from tests.mutants.mutant import FAILING, STEPS, Mutant

CREATING = "volume/backups/sagas/create_backup.py"
BACKUPS, STORE = "tests/volume/test_backups.py", "tests/volume/test_backup_store.py"
DIRECTORY = "volume/backups/stores/directory.py"
MUTANTS = [
    Mutant(
        "a backup that failed keeps its data",
        CREATING,
        'Step("store_data", store_data, undo=remove_data, deadline_s=7500.0)',
        'Step("store_data", store_data, deadline_s=7500.0)',
        STEPS,
        f"{FAILING} and create_backup",
    ),
    Mutant(
        "a backup whose volume was reset is creating for ever",
        CREATING,
        'story=tell("create", "create_backup", absorbed=give_up)',
        'story=tell("create", "create_backup")',
        "tests/laws/test_heirs.py",
        "create and backup and store_data and forward and reset_status",
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
        "        def put() -> None:\n            if not path.exists()",
        "        def put() -> None:\n            path.parent.mkdir(exist_ok=True)\n"
        "            if not path.exists()",
        STORE,
        "nobody_writes",
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
