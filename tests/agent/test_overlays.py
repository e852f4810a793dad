"""Files of a disk, read from their headers: none may name anything but its neighbour."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from mooring.agent import overlays
from mooring.agent.overlays import Layer
from mooring.agent_api.overlays import MergeRequest
from mooring.errors import Conflict, Invalid, NotFound

SIZE = 1024**2


def write(path: Path, backing: str = "", backing_format: str = "raw", size: int = SIZE) -> Path:
    """Write the header of a qcow2 file."""
    name, declared = backing.encode(), backing_format.encode()
    extension = struct.pack(">II", 0xE2792ACA, len(declared)) + declared.ljust(8, b"\0")
    extension = (extension if declared else b"") + struct.pack(">II", 0, 0)
    offset = 104 + len(extension) if backing else 0
    head = struct.pack(">4sIQIIQI", b"QFI\xfb", 3, offset, len(name), 16, size, 0)
    head = head.ljust(100, b"\0") + struct.pack(">I", 104)
    path.write_bytes((head + extension + name).ljust(512, b"\0"))
    return path


@pytest.fixture
def base(tmp_path: Path) -> Layer:
    (tmp_path / "base").write_bytes(bytes(SIZE))
    return Layer(tmp_path / "base", "raw")


def test_a_chain_is_read_from_the_top_down(base: Layer) -> None:
    write(base.path.parent / "one", "base")
    top = Layer(write(base.path.parent / "two", "one", "qcow2"), "qcow2")
    assert [(layer.name, layer.format) for layer in overlays.read_layers(top)] == [
        ("two", "qcow2"),
        ("one", "qcow2"),
        ("base", "raw"),
    ]


@pytest.mark.parametrize("backing", ["/etc/passwd", "../base", "json:{}", "nbd:unix:x", "a/b"])
def test_a_backing_file_elsewhere_is_refused(base: Layer, backing: str) -> None:
    top = write(base.path.parent / "top", backing)
    with pytest.raises(Invalid, match="not taken"):
        overlays.read_layers(Layer(top, "qcow2"))
    with pytest.raises(Invalid):
        overlays.check_overlay("top", base)


def test_a_backing_file_whose_format_would_be_guessed_is_refused(base: Layer) -> None:
    write(base.path.parent / "top", "base", "")
    with pytest.raises(Invalid, match="not taken"):
        overlays.check_overlay("top", base)


def test_an_overlay_stands_on_the_file_in_use_in_its_format_and_size(base: Layer) -> None:
    directory = base.path.parent
    assert overlays.check_overlay(write(directory / "good", "base").name, base).name == "good"
    (directory / "other").write_bytes(bytes(SIZE))
    for name, backing, declared, size in (
        ("on-other", "other", "raw", SIZE),
        ("as-qcow2", "base", "qcow2", SIZE),
        ("larger", "base", "raw", SIZE * 2),
        ("alone", "", "raw", SIZE),
    ):
        write(directory / name, backing, declared, size)
        with pytest.raises(Invalid):
            overlays.check_overlay(name, base)


def test_a_link_and_a_missing_file_are_no_overlays(base: Layer) -> None:
    write(base.path.parent / "good", "base")
    (base.path.parent / "link").symlink_to("good")
    for name in ("link", "missing"):
        with pytest.raises(NotFound):
            overlays.check_overlay(name, base)


def test_a_chain_that_bites_its_tail_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="more than"):
        overlays.read_layers(Layer(write(tmp_path / "loop", "loop", "qcow2"), "qcow2"))


def test_files_that_are_merged_already_are_told_from_those_that_cannot_be(base: Layer) -> None:
    directory = base.path.parent
    layers = [Layer(directory / name, "qcow2") for name in ("c", "b", "a")] + [base]

    def merged(file: str | None, into: str | None = None) -> bool:
        request = MergeRequest(file_to_merge=file, merge_target_file=into)
        return overlays.check_merge(request, layers)

    assert merged("b")
    assert not merged("base")
    assert not merged(None)
    assert not merged("a", "base")
    assert merged("gone", "base")
    for file, into in (("b", "base"), ("a", "elsewhere"), ("elsewhere", None), (None, "a")):
        with pytest.raises(Invalid):
            merged(file, into)
    with pytest.raises(Conflict):
        merged("c", "b")
