"""What Tempest is shown of a guest is what its disk has: a rebuild that left it would be seen."""

from __future__ import annotations

import re
from pathlib import Path

from tests.tempest.api import PICTURES, RETYPES
from tests.tempest.guest_files import GuestFiles, run_command
from tests.tempest.rescues import RESCUES
from tests.tempest.settings import OTHERS, REBUILD
from tests.tempest.shares import SHARES

MISSING = (1, "cat: test_file: No such file or directory\n")


def test_a_guests_file_is_there_until_the_end_of_its_disk_is_replaced(tmp_path: Path) -> None:
    disk = tmp_path / "volume"
    disk.write_bytes(b"old!" * 1024)
    files = GuestFiles(disk)
    assert run_command(["cat", "test_file"], files) == MISSING
    assert run_command(["touch", "test_file"], files) == (0, "")
    with disk.open("r+b") as opened:
        opened.write(b"new!" * 256)
    assert run_command(["cat", "test_file"], files) == (0, "")
    with disk.open("r+b") as opened:
        opened.truncate(1024)
        opened.truncate(4096)
    assert run_command(["cat", "test_file"], files) == MISSING
    assert run_command(["rm", "test_file"], files)[0] == 127


def test_each_test_is_run_once() -> None:
    parts = (REBUILD, OTHERS, RESCUES, PICTURES, RETYPES, SHARES)
    patterns = [pattern for part in parts for pattern in part.patterns()]
    assert len(patterns) == len(set(patterns))


def test_whole_cases_are_run_without_what_is_left_out() -> None:
    def is_run(name: str) -> bool:
        chosen = any(re.search(each, name) for each in SHARES.patterns())
        return chosen and not any(re.search(each, name) for each in SHARES.patterns_left_out())

    api = "manila_tempest_tests.tests.api"
    assert is_run(f"{api}.test_rules.ShareIpRulesForNFSTest.test_create_delete_access_rules[id-1]")
    assert not is_run(f"{api}.test_rules.ShareIpRulesForNFSTest.test_update_access_rule[id-1]")
    assert not is_run(f"{api}.test_rules.ShareIpRulesForCIFSTest.test_create_delete_access_rules")
    assert set(SHARES.left_out) <= set(SHARES.whole)
