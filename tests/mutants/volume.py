"""Faults seeded in the volume service."""

from __future__ import annotations

from tests.mutants.mutant import FAILING, STEPS, Mutant

MUTANTS = [
    Mutant(
        "an undo leaves the export",
        "volume/attachments/sagas/connect_attachment.py",
        "    if not notes.fresh:\n        return\n",
        "    return\n",
        STEPS,
        f"{FAILING} and connect_attachment",
    ),
    Mutant(
        "a completion is taken in any status",
        "volume/extend/extending.py",
        '            VolumeRow.status == "extending",\n            VolumeRow.extend_new_size',
        "            VolumeRow.extend_new_size",
        "tests/volume/test_extend_completion.py",
        "any_status_but",
    ),
    Mutant(
        "a completion still counts after the deadline",
        "volume/extend/sagas/extend_volume.py",
        "    if notes.overdue:\n        _refuse_answers(tx, notes, run)\n",
        "",
        "tests/volume/test_extend_ends.py",
        "is_waited_for",
    ),
    Mutant(
        "a completion still counts in a bad end",
        "volume/extend/sagas/extend_volume.py",
        "    elif not notes.settled:\n        _refuse_answers(tx, notes, run)\n",
        "",
        "tests/volume/test_extend_ends.py",
        "too_late",
    ),
    Mutant(
        "a completion is believed without a look at the file",
        "volume/extend/sagas/extend_volume.py",
        "    if found < notes.new_bytes:\n",
        "    if found < 0:\n",
        "tests/volume/test_extend_completion.py",
        "not_believed",
    ),
    Mutant(
        "a volume whose server left stays in error_extending",
        "volume/extend/sagas/extend_volume.py",
        "        growing.let_rest(tx, notes.volume_id, now)\n",
        "        pass\n",
        "tests/volume/test_extend_completion.py",
        "that_leaves",
    ),
    Mutant(
        "a file that has grown is an error where compute says so",
        "volume/extend/sagas/extend_volume.py",
        "    if found is not None and found >= notes.new_bytes:\n        _commit",
        "    if found is not None and found >= notes.new_bytes and not run.error:\n        _commit",
        "tests/volume/test_extend_completion.py",
        "has_grown_is_success",
    ),
    Mutant(
        "the policies of reimage are swapped",
        "volume/reimage/reimage.py",
        '"volume:reimage_reserved" if was_reserved else "volume:reimage"',
        '"volume:reimage" if was_reserved else "volume:reimage_reserved"',
        "tests/volume/test_reimage.py",
        "policy_of_its_own",
    ),
    Mutant(
        "a snapshot holds the volume while its server is busy",
        "volume/snapshots/sagas/turns.py",
        "await asking\n    except Conflict as error:\n        if not is_unavailable(error):\n",
        "await asking\n    except Conflict as error:\n        if is_unavailable(error):\n",
        "tests/volume/test_assisted_snapshots.py",
        "busy_server",
    ),
    Mutant(
        "a deletion is given up when its server leaves",
        "volume/snapshots/sagas/delete_snapshot.py",
        " or turns.has_left(tx, notes.volume_id, notes.server_id)",
        "",
        "tests/volume/test_assisted_snapshots.py",
        "server_leaves",
    ),
    Mutant(
        "a snapshot waits for a busy server without end",
        "volume/snapshots/sagas/create_snapshot.py",
        "    if run.error is None or age_s >= run.service.settings.snapshot_deadline_s:\n",
        "    if run.error is None or age_s < 0:\n",
        "tests/volume/test_assisted_snapshots.py",
        "stays_busy",
    ),
]
