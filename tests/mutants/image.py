"""Faults seeded in the image service."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        "the id of a deleted image can be had again",
        "image/images.py",
        "    tx.execute(insert(FormerImageRow).values(former))\n",
        "",
        "tests/image/test_images.py",
        "test_the_id_of_a_deleted_image_is_nobody_s_any_more",
    ),
    Mutant(
        "two uploads fill one image",
        "image/uploads.py",
        'update(ImageRow).where(ImageRow.id == image_id, ImageRow.status == "queued")',
        "update(ImageRow).where(ImageRow.id == image_id)",
        "tests/image/test_uploads.py",
        "test_a_second_upload_meanwhile_is_409",
    ),
    Mutant(
        "an interrupted upload leaves its file",
        "image/uploads.py",
        "        if writer is not None and not active:\n",
        "        if writer is not None and active:\n",
        "tests/image/test_interrupted_uploads.py",
        "test_a_client_that_breaks_off_leaves_a_queued_image",
    ),
    Mutant(
        "an interrupted upload leaves the image saving",
        "image/uploads.py",
        'again.values(status="queued", updated_at=now)',
        'again.values(status="saving", updated_at=now)',
        "tests/image/test_interrupted_uploads.py",
        "test_a_client_that_breaks_off_leaves_a_queued_image",
    ),
    Mutant(
        "qcow2 passes for raw",
        "image/contents.py",
        "if written.start.startswith(qcow2.MAGIC) and",
        "if written.start == qcow2.MAGIC and",
        "tests/image/test_uploads.py",
        "test_data_that_are_not_what_they_are_said_to_be_are_415",
    ),
    Mutant(
        "images have no bound",
        "image/uploads.py",
        "        if size > settings.size_bytes:\n",
        "        if size > settings.size_bytes * 1000:\n",
        "tests/image/test_uploads.py",
        "test_a_body_over_the_limit_is_413",
    ),
    Mutant(
        "the checksum is of the first chunk",
        "image/files.py",
        "            self._md5.update(chunk)\n",
        '            self._md5.update(chunk if self._size == len(chunk) else b"")\n',
        "tests/image/test_uploads.py",
        "test_data_go_in_and_come_out",
    ),
    Mutant(
        "a private image has members",
        "image/members.py",
        '    if image.visibility != "shared":\n',
        '    if image.visibility == "":\n',
        "tests/image/test_images.py",
        "test_only_a_shared_image_has_members",
    ),
    Mutant(
        "the owner accepts for others",
        "image/members.py",
        '{**image.target(), "member_id": member_id}',
        "image.target()",
        "tests/image/test_images.py",
        "shared_accepted",
    ),
    Mutant(
        "strays are kept",
        "image/files.py",
        "    remove(directory, [name for name in there if name.removesuffix(_PART) not in kept])",
        "    remove(directory, [name for name in there if not name])",
        "tests/image/test_interrupted_uploads.py",
        "test_of_several_processes_only_a_silent_one_loses_its_upload",
    ),
]
