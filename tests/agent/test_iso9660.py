"""Images of CD-ROMs: what is written is what readers of the standard find."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.agent import iso9660
from mooring.errors import Bug

NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789_-.", min_size=1, max_size=28).filter(
    lambda name: name.strip(".") != ""
)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


@given(st.dictionaries(PATHS, st.binary(max_size=5000), max_size=30))
def test_each_file_is_read_as_it_was_written(files: dict[str, bytes]) -> None:
    # A name cannot be a file and a directory at once.
    whole = {
        path: content
        for path, content in files.items()
        if not any(other.startswith(f"{path}/") for other in files)
    }
    image = iso9660.build(whole, "config-2")
    assert {path: iso9660.read(image, path) for path in whole} == whole
    assert iso9660.build(whole, "config-2") == image
    assert len(image) % iso9660.SECTOR == 0


def test_what_is_not_there_is_not_found() -> None:
    image = iso9660.build({"a/b.txt": b"1"}, "x")
    assert [iso9660.read(image, path) for path in ("a", "a/c", "b.txt", "a/b.txt/c")][1:] == [
        None,
        None,
        None,
    ]


def test_files_of_one_content_are_there_once() -> None:
    content = b"x" * 100_000
    one = iso9660.build({"a": content}, "x")
    many = iso9660.build({f"{number}/a": content for number in range(9)}, "x")
    assert len(many) < len(one) + len(content)


def test_a_directory_takes_as_many_sectors_as_it_needs() -> None:
    files = {f"d/file-{number:04}": str(number).encode() for number in range(500)}
    image = iso9660.build(files, "x")
    assert {path: iso9660.read(image, path) for path in files} == files


@pytest.mark.parametrize("path", ["ä", "a//b", "", "a" * 29, "/a"])
def test_a_path_that_not_every_reader_knows_is_a_bug(path: str) -> None:
    with pytest.raises(Bug):
        iso9660.build({path: b""}, "x")


# Every Debian has it, in util-linux, though not where those who are not root look for programs.
BLKID = shutil.which("blkid", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or ""


@pytest.mark.skipif(not BLKID, reason="no blkid (util-linux) here to find a drive by its label")
def test_others_find_its_label(tmp_path: Path) -> None:
    file = tmp_path / "drive"
    file.write_bytes(iso9660.build({"a": b"1"}, "config-2"))
    asked = [BLKID, "--probe", "--output", "export", str(file)]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    assert {"LABEL=config-2", "TYPE=iso9660"} <= set(said.split())
