"""Faults in images of servers, and in servers that are made of them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_PICTURES, _BACKUPS = "tests/compute/test_volume_pictures.py", "tests/compute/test_backups.py"
_VOLUMES = "compute/images/sagas/picture_volumes.py"
_BACKUP = "compute/images/sagas/create_backup.py"
MUTANTS = [
    Mutant(
        "an image of volumes is usable before its snapshots are",
        _VOLUMES,
        "    if status not in _THERE:\n",
        "    if not status:\n",
        _PICTURES,
        "snapshot_that_fails",
    ),
    Mutant(
        "snapshots stay of which no image was made",
        _VOLUMES,
        'Step("take_snapshot", take_snapshot, undo=delete_snapshot)',
        'Step("take_snapshot", take_snapshot)',
        _PICTURES,
        "deleted_on_its_way or snapshot_that_fails",
    ),
    Mutant(
        "a snapshot of an image is asked for twice by whoever takes over",
        "volume/snapshots/snapshots.py",
        "            return earlier.body\n",
        "            pass\n",
        "tests/volume/test_client.py",
        "snapshot",
    ),
    Mutant(
        "backups of other projects go",
        _BACKUP,
        '        "owner": notes.project_id,\n',
        "",
        _BACKUPS,
        "another_project",
    ),
    Mutant(
        "backups of other servers go",
        _BACKUP,
        '        "instance_uuid": notes.server_id,\n',
        "",
        _BACKUPS,
        "other_servers",
    ),
    Mutant(
        "a new backup goes in the place of the oldest",
        _BACKUP,
        "[notes.image_id, *others]",
        "[*others, notes.image_id]",
        _BACKUPS,
        "oldest_of_its_type",
    ),
    Mutant(
        "the disks of the request stand beside those of the image in their place",
        "compute/create/image_devices.py",
        "if _last(item) not in replaced), *asked]",
        "if _last(item) not in ()), *asked]",
        _PICTURES,
        "takes_the_place",
    ),
    Mutant(
        "a host that keeps a copy of a disk is asked once when others take the server",
        "compute/images/sagas/server_image.py",
        "may_be_forgone=True, until_taken=True)",
        "may_be_forgone=True)",
        "tests/compute/test_owed_captures.py",
        "sqlite and createImage",
    ),
]
