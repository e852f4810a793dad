"""Files that QEMU's user gets, and the directories on the way to them."""

from __future__ import annotations

import errno
import os
import pwd
import shutil
import stat
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from mooring.agent.app import open_agent
from mooring.agent.emulator_files import EmulatorFiles, EmulatorUser, find_user
from mooring.agent.run import Runner
from mooring.agent.seclusion import gives_files
from mooring.agent.settings import AgentSettings
from mooring.agent.sources import FileSource
from mooring.errors import Unavailable
from mooring.lab.namespaces import Unnoted
from tests.agent.hosts import why_no_real_guests
from tests.agent.processes import agent_process

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(os.geteuid() != 0, reason="giving files to another user takes root"),
]
NOBODY = pwd.getpwnam("nobody")
USER = EmulatorUser("nobody", NOBODY.pw_uid, NOBODY.pw_gid)


@pytest.fixture
def emulator() -> EmulatorFiles:
    return EmulatorFiles(Runner(Unnoted()), USER)


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A directory that everybody passes to, which those of a run of tests forbid."""
    with TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o711)
        yield path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file as qemu-img makes it."""
    path = tmp_path / "volume"
    path.write_bytes(bytes(512))
    path.chmod(0o644)
    return path


def rights(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)


def test_a_file_that_is_given_is_written_by_that_user_and_root_alone(
    emulator: EmulatorFiles, file: Path
) -> None:
    for _ in range(2):
        emulator.give(file)
        assert rights(file) == (USER.uid, 0, 0o660)


def test_a_file_that_several_guests_read_stays_root_s(emulator: EmulatorFiles, file: Path) -> None:
    emulator.let_read(file)
    assert rights(file) == (0, USER.gid, 0o640)


def test_a_file_for_its_owner_alone_stays_so(emulator: EmulatorFiles, file: Path) -> None:
    file.chmod(0o600)
    emulator.give(file)
    assert rights(file) == (USER.uid, 0, 0o600)


def test_a_file_of_a_share_that_everybody_may_write_to_stays_so(
    emulator: EmulatorFiles, file: Path
) -> None:
    file.chmod(0o666)
    emulator.give(file)
    assert rights(file) == (USER.uid, 0, 0o666)


def test_what_a_link_leads_to_is_not_given(emulator: EmulatorFiles, file: Path) -> None:
    before, link = rights(file), file.with_name("link")
    link.symlink_to(file)
    with pytest.raises(Unavailable, match="link is neither a file nor a disk"):
        emulator.give(link)
    assert rights(file) == before


def test_a_file_that_root_may_not_open_is_left_to_its_storage(
    emulator: EmulatorFiles, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of NFS that squashes root may let QEMU's user open it nevertheless."""
    before, link = rights(file), file.with_name("link")
    link.symlink_to(file)

    def refuse(path: Path, *how: int) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(os, "open", refuse)
    emulator.give(file)
    emulator.let_read(file)
    emulator.give_disk(FileSource(str(file), "raw"))
    assert rights(file) == before
    with pytest.raises(Unavailable, match="link is neither a file nor a disk"):
        emulator.give(link)


def test_without_a_user_of_its_own_nothing_is_given(file: Path) -> None:
    before = rights(file)
    emulator = EmulatorFiles(Runner(Unnoted()))
    emulator.give(file)
    emulator.let_read(file)
    emulator.give_disk(FileSource(str(file), "raw"))
    assert rights(file) == before


async def test_a_volume_that_is_given_keeps_nobody_waiting(
    open_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, given_by, change = open_path / "volume", list[threading.Thread](), os.fchown

    def note(handle: int, uid: int, gid: int) -> None:
        given_by.append(threading.current_thread())
        change(handle, uid, gid)

    file.write_bytes(bytes(512))
    monkeypatch.setattr(os, "fchown", note)
    await EmulatorFiles(Runner(Unnoted()), USER).admit(FileSource(str(file), "raw"))
    assert rights(file)[0] == USER.uid
    assert given_by
    assert threading.current_thread() not in given_by


@pytest.mark.skipif(shutil.which("qemu-img") is None, reason="there is no qemu-img")
def test_layers_of_a_volume_are_given_and_an_image_below_a_root_disk_is_not(
    emulator: EmulatorFiles, file: Path
) -> None:
    top = file.with_name("top")
    make = ["qemu-img", "create", "-q", "-f", "qcow2", "-b", file.name, "-F", "raw", str(top)]
    subprocess.run(make, check=True)
    emulator.give_top(FileSource(str(top), "qcow2"))
    assert rights(top) == (USER.uid, 0, 0o660)
    assert rights(file) == (0, USER.gid, 0o640)
    emulator.give_disk(FileSource(str(top), "qcow2"))
    assert rights(file) == (USER.uid, 0, 0o660)


async def test_a_directory_on_the_way_that_the_user_cannot_pass_is_named(
    emulator: EmulatorFiles, open_path: Path
) -> None:
    closed = open_path / "closed"
    (closed / "state" / "volumes").mkdir(parents=True)
    await emulator.check_passes(closed / "state" / "volumes")
    other = EmulatorFiles(Runner(Unnoted()), USER)
    closed.chmod(0o700)
    with pytest.raises(
        Unavailable, match=f"user nobody, who cannot pass the directory {closed}[.]"
    ):
        await other.check_passes(closed / "state" / "volumes")


@pytest.mark.hosts
@pytest.mark.skipif(bool(why_no_real_guests()), reason="no real guests here")
async def test_an_agent_whose_guests_do_not_get_at_their_files_says_so(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    wanted = AgentSettings(name="h", state_dir=closed / "state", hypervisor="libvirt")
    with pytest.raises(Unavailable, match=f"cannot pass the directory {closed}[.]"):
        async with open_agent(wanted):
            raise AssertionError
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


@pytest.mark.hosts
@pytest.mark.skipif(bool(why_no_real_guests()), reason="no real guests here")
async def test_an_agent_whose_guests_were_root_s_before_goes_on_with_them(tmp_path: Path) -> None:
    """Of a process of its own: libvirt keeps to one directory for the life of a process."""
    closed = tmp_path / "closed"
    conf = closed / "state" / "libvirt" / "etc" / "qemu.conf"
    conf.parent.mkdir(parents=True)
    closed.chmod(0o700)
    conf.write_text('user = "root"\ngroup = "root"\n')
    async with agent_process(closed / "state", "libvirt") as agent:
        assert (await agent.client.host()).hypervisor == "libvirt"
    assert 'user = "root"' in conf.read_text()
    assert stat.S_IMODE((closed / "state").stat().st_mode) == 0o700


def test_a_user_that_is_missing_is_a_clear_error() -> None:
    with pytest.raises(Unavailable, match="useradd"):
        find_user("no-such-user-here")


def test_who_gives_files_is_what_the_daemon_s_settings_say(tmp_path: Path) -> None:
    settings = tmp_path / "qemu.conf"
    assert gives_files(settings)
    settings.write_text("#dynamic_ownership = 0\n")
    assert gives_files(settings)
    settings.write_text("dynamic_ownership = 1\ndynamic_ownership = 0\n")
    assert not gives_files(settings)
