"""The files of guests, without a hypervisor."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from mooring.agent.guest_files import GuestFiles
from mooring.agent.qemu_img import QemuImg
from mooring.agent.run import Runner
from mooring.errors import Invalid, NotFound
from mooring.fence.journal import Journal

pytestmark = pytest.mark.anyio
MIB = 1024**2


@pytest.fixture
def qemu_img(journal: Journal) -> QemuImg:
    return QemuImg(Runner(journal))


@pytest.fixture
def kept(tmp_path: Path, qemu_img: QemuImg) -> GuestFiles:
    made = GuestFiles(tmp_path / "guests", qemu_img)
    made.prepare()
    return made


async def test_files_of_a_guest_that_is_not_there_are_left_over(kept: GuestFiles) -> None:
    for name in ("one", "other"):
        (kept.directory / name).mkdir()
    assert kept.leftovers({"one", "other"}) == []
    assert kept.leftovers({"one"}) == [str(kept.directory / "other")]
    kept.remove("other")
    assert kept.leftovers({"one"}) == []


async def test_a_console_on_a_full_disk_makes_room_and_no_host_fail(
    kept: GuestFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, talking = (kept.console_path(name) for name in ("gone", "talking"))
    for console in (gone, talking):
        console.parent.mkdir()
    # As one that is removed between the look for it and the look at it.
    gone.symlink_to("nowhere")
    talking.write_bytes(b"x" * (2 * MIB + 1))

    def fill(self: Path, content: bytes) -> int:
        with self.open("wb") as file:
            file.write(content[:4096])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fill)
    kept.trim_consoles()
    assert talking.stat().st_size == 0
    assert [path.name for path in talking.parent.iterdir()] == ["console.log"]


@pytest.mark.parametrize(
    ("backing", "backing_format"),
    [
        ("/etc/passwd", "raw"),
        ("../other/root.qcow2", "qcow2"),
        ("nbd:127.0.0.1:1", "raw"),
        ("", ""),
    ],
)
@pytest.mark.hosts
async def test_a_disk_that_came_has_no_other_file_opened(
    kept: GuestFiles, qemu_img: QemuImg, backing: str, backing_format: str
) -> None:
    own = await lay_copy(kept, qemu_img)
    to = (backing, backing_format) if backing else None
    await qemu_img.rebase(own / "root.qcow2.coming", to, rename=True)
    with pytest.raises(Invalid, match="another file"):
        await kept.take_in([own / "base.coming", own / "root.qcow2.coming"])
    assert not (own / "root.qcow2").exists()


@pytest.mark.hosts
async def test_an_image_that_came_has_no_other_file_opened(
    kept: GuestFiles, qemu_img: QemuImg
) -> None:
    own = await lay_copy(kept, qemu_img)
    await qemu_img.rebase(own / "base.coming", ("/etc/passwd", "raw"), rename=True)
    with pytest.raises(Invalid, match="backing file"):
        await kept.take_in([own / "base.coming", own / "root.qcow2.coming"])


@pytest.mark.hosts
async def test_what_came_is_taken_in_wherever_that_stopped(
    kept: GuestFiles, qemu_img: QemuImg
) -> None:
    own = await lay_copy(kept, qemu_img)
    coming = [own / "base.coming", own / "root.qcow2.coming"]
    coming[0].rename(own / "base")
    for _ in range(2):
        await kept.take_in(coming)
    root = await kept.find_root("server", "image", 2 * MIB, "x")
    assert (root.path, root.format, root.size_bytes) == (own / "root.qcow2", "qcow2", 2 * MIB)
    assert (await kept.find_root("server", "image", 0, "x")).size_bytes == 2 * MIB
    with pytest.raises(Invalid, match="not made smaller"):
        await kept.find_root("server", "image", MIB, "x")
    with pytest.raises(NotFound):
        await kept.find_root("other", "image", 0, "x")


async def lay_copy(kept: GuestFiles, qemu_img: QemuImg) -> Path:
    """Lay down the files of a guest as they come from another host."""
    if find_missing():
        pytest.skip("QEMU is not installed")
    own = kept.directory / "server"
    own.mkdir()
    await qemu_img.create(own / "base", "qcow2", MIB)
    await qemu_img.create(own / "root.qcow2", "qcow2", MIB, backing=("base", "qcow2"))
    for name in ("base", "root.qcow2"):
        (own / name).rename(own / f"{name}.coming")
    return own


def find_missing() -> bool:
    """Whether the programs that make disks are missing here."""
    return shutil.which("qemu-img") is None
