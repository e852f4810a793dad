"""Faults in images of servers, and in servers that are made of them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_STAY = "tests/test_whole_images_stay.py"
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
        "[notes.image_id, *ids]",
        "[*ids, notes.image_id]",
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
    Mutant(
        "an image that has its data goes when what made it is turned back",
        "captured_images.py",
        "    if found is not None and found.is_whole:\n",
        "    if found is None:\n",
        _STAY,
        "of_a_server and failure and sqlite",
    ),
    Mutant(
        "a backup that stays costs the project one image more",
        "compute/images/sagas/create_backup.py",
        "    ids.remove(notes.image_id)\n    return replace(notes, old=[notes.image_id, *ids]",
        "    return replace(notes, old=[notes.image_id, *ids, *ids]",
        _STAY,
        "takes_the_place and sqlite",
        hangs=True,
    ),
    Mutant(
        "a backup whose image is deleted on its way costs an older one",
        "compute/images/sagas/create_backup.py",
        "    if notes.image_id not in ids:\n        return replace(notes, old=[])\n",
        "    if notes.image_id not in ids:\n        return replace(notes, old=ids)\n",
        _STAY,
        "costs_no_older_one and sqlite",
    ),
    Mutant(
        "a volume's image that stays is not protected as it was to be",
        "volume/upload/sagas/upload_volume.py",
        "run, _CREATE):\n        await protect_image(notes, run)",
        "run, _CREATE):\n        return",
        _STAY,
        "of_a_volume and True and failure and sqlite",
    ),
]
