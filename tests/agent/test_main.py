"""An agent behind its socket: for its owner alone, and tidy when it ends."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import stat
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from mooring.agent.app import open_agent
from mooring.agent.libvirt.network_devices import problem_of
from mooring.agent.main import serve
from mooring.agent.seclusion import EMULATOR, emulator, let_emulator_pass
from mooring.agent.settings import AgentSettings, Role
from mooring.agent_api.images import ImageSpec
from mooring.errors import Invalid, Unavailable
from tests.agent.hosts import IMAGE_ID, operation, stream
from tests.agent.processes import agent_process

pytestmark = pytest.mark.anyio
TRY = """
import socket, sys
with socket.socket(socket.AF_UNIX) as caller:
    caller.connect(sys.argv[1])
    try:
        caller.sendall(b"GET /host HTTP/1.1\\r\\nHost: agent\\r\\nConnection: close\\r\\n\\r\\n")
        sys.exit(7 if caller.recv(12) == b"HTTP/1.1 200" else 8)
    except OSError:
        sys.exit(8)
"""


async def test_an_agent_answers_through_its_socket_and_takes_it_away(tmp_path: Path) -> None:
    socket = tmp_path / "socket"
    async with agent_process(tmp_path, "simulated") as agent:
        assert stat.S_IMODE(socket.stat().st_mode) == 0o600
        assert (await agent.client.host()).name == "host-1"
        data = b"x" * 3_000_000
        spec = ImageSpec(disk_format="raw", size_bytes=len(data))
        image = await agent.client.put_image(IMAGE_ID, spec, stream(data), operation=operation())
        assert image.size_bytes == len(data)
        wrong = ImageSpec(disk_format="raw", size_bytes=5)
        with pytest.raises(Invalid, match="larger than"):
            await agent.client.put_image("other", wrong, stream(data), operation=operation())
        os.kill(agent.process.pid, signal.SIGTERM)
        await agent.died()
        assert not socket.exists()
        with pytest.raises(Unavailable):
            await agent.client.host()


async def test_what_is_no_socket_is_kept_where_an_agent_is_to_have_one(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    settings = AgentSettings(name="h", state_dir=tmp_path / "state", hypervisor="simulated")
    with pytest.raises(Invalid, match=r"notes\.txt is no socket"):
        await serve(settings, file)
    assert file.read_text() == "mine"


async def test_an_agent_whose_directory_is_removed_ends_and_says_so(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    async with agent_process(state, "simulated") as agent:
        assert (await agent.client.host()).name == "host-1"
        await asyncio.to_thread(state.rename, tmp_path / "elsewhere")
        await agent.died()
        assert agent.process.poll() == 1


async def test_a_socket_left_by_a_killed_agent_is_no_hindrance(tmp_path: Path) -> None:
    async with agent_process(tmp_path, "simulated") as agent:
        await agent.kill()
    async with agent_process(tmp_path, "simulated") as agent:
        assert (await agent.client.host()).name == "host-1"


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming somebody else takes root")
async def test_strangers_are_turned_away_whatever_the_mode() -> None:
    python = shutil.which("python3", path="/usr/bin")
    if python is None:
        pytest.skip("somebody else can run no Python here")
    # Everybody may pass through this directory, which those of pytest forbid.
    with TemporaryDirectory() as name:
        directory = Path(name)
        async with agent_process(directory, "simulated"):
            await asyncio.to_thread(directory.chmod, 0o711)
            (directory / "socket").chmod(0o666)
            codes = [await attempt(python, directory / "socket", uid) for uid in (0, 65534)]
    assert codes == [7, 8]


async def attempt(python: str, socket: Path, uid: int) -> int:
    process = await asyncio.create_subprocess_exec(python, "-c", TRY, str(socket), user=uid)
    return await process.wait()


async def test_no_other_user_of_the_machine_gets_at_what_an_agent_keeps(tmp_path: Path) -> None:
    directory = tmp_path / "state"
    # As the release before made it.
    directory.mkdir(mode=0o711)
    every: tuple[tuple[Role, ...], ...] = (("compute", "volume"), ("volume",))
    for roles in every:
        directory.chmod(0o711)
        wanted = AgentSettings(name="h", state_dir=directory, hypervisor="simulated", roles=roles)
        async with open_agent(wanted):
            assert stat.S_IMODE(directory.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a directory to another group takes root")
def test_below_a_daemon_qemu_alone_gets_at_it_too(tmp_path: Path) -> None:
    try:
        group = pwd.getpwnam(emulator()).pw_gid
    except KeyError:
        pytest.skip(f"this machine has no user {emulator()}, whom its libvirt daemon brings")
    let_emulator_pass(tmp_path)
    status = tmp_path.stat()
    assert stat.S_IMODE(status.st_mode) == 0o710
    assert status.st_gid == group


def test_qemu_s_user_is_the_one_that_its_settings_name(tmp_path: Path) -> None:
    settings = tmp_path / "qemu.conf"
    assert emulator(settings) == EMULATOR
    settings.write_text('#user = "nobody"\n')
    assert emulator(settings) == EMULATOR
    settings.write_text('#user = "nobody"\nuser = "+1001"\n\n user="qemu"\n')
    assert emulator(settings) == "qemu"


@pytest.mark.parametrize(
    ("there", "text", "user"),
    [
        (["qemu"], '#user = "qemu"\n', "qemu"),
        (["qemu"], "", "qemu"),
        (["libvirt-qemu"], '#user = "root"\n', "libvirt-qemu"),
        # Who followed a host's advice before it had a daemon has both.
        (["libvirt-qemu", "qemu"], '#user = "qemu"\n', "qemu"),
        (["libvirt-qemu", "qemu"], '#       user = "qemu"\n', "libvirt-qemu"),
        (["libvirt-qemu"], '#user = "qemu"\n', "libvirt-qemu"),
        ([], '#user = "qemu"\n', "libvirt-qemu"),
        (["qemu"], 'user = "guests"\n', "guests"),
    ],
)
def test_qemu_s_user_is_else_one_that_is_built_in_and_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: list[str], text: str, user: str
) -> None:
    found = {name: pwd.getpwuid(os.getuid()) for name in there}
    monkeypatch.setattr(pwd, "getpwnam", found.__getitem__)
    settings = tmp_path / "qemu.conf"
    settings.write_text(text)
    assert emulator(settings) == user


def test_a_libvirt_that_cannot_shut_guests_in_is_a_problem_of_its_host() -> None:
    assert problem_of(8_002_000) == problem_of(9_000_000) == ""
    assert "libvirt 8.0 cannot" in problem_of(8_000_000)
