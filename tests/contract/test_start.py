"""`mooring up` that cannot start says so in one line that tells what to do, and exits with 1."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.hosts import why_no_real_guests
from tests.contract.clients import Cloud

pytestmark = pytest.mark.contract
MOORING = (sys.executable, "-m", "mooring.main", "up")
SIMULATED = ("--hypervisor", "simulated", "--listen", "127.0.0.1:0")
NOBODY = 65534
# Root may read and write everywhere, unless these two capabilities are taken from it.
WITHOUT_PRIVILEGE = ("setpriv", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search")
_COMMAND = "from mooring.main import cli; cli()"
WITHOUT_ROOT = f"import os; os.geteuid = lambda: {NOBODY}; {_COMMAND}"
WITHOUT_PROGRAMS = (
    f"from mooring.lab import namespaces; namespaces.SYSTEM_PATH = '/nowhere'; {_COMMAND}"
)
WITHOUT_LIBVIRT = "import sys; sys.modules['libvirt'] = None; from mooring.main import cli; cli()"


def refused(*command: str) -> str:
    """Run a command that must not start, and return the one line that says why."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 1, done
    assert "ready" not in done.stdout
    [line] = done.stderr.splitlines()
    return line


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(number: signal.Signals, tmp_path: Path) -> None:
    cloud = Cloud(tmp_path / "state", tmp_path / "log")
    cloud.process.popen.send_signal(number)
    assert cloud.process.wait() == 0
    assert not list((tmp_path / "state").glob("*.sqlite-wal"))


def test_a_port_in_use_is_named(running_cloud: Cloud, tmp_path: Path) -> None:
    listen = running_cloud.url.removeprefix("http://")
    options = ("--state-dir", str(tmp_path), "--hypervisor", "simulated", "--listen", listen)
    line = refused(*MOORING, *options)
    assert line.startswith(f"mooring: {listen} is in use.")
    assert "--listen" in line


def test_a_state_directory_in_use_is_named_with_the_process_that_has_it(
    running_cloud: Cloud,
) -> None:
    line = refused(*MOORING, *SIMULATED, "--state-dir", str(running_cloud.state_dir))
    assert f"in use by process {running_cloud.process.popen.pid}" in line
    assert "--state-dir" in line


def test_a_state_directory_of_somebody_else_is_named(tmp_path: Path) -> None:
    directory = tmp_path / "theirs"
    directory.mkdir()
    command = (*MOORING, *SIMULATED, "--state-dir", str(directory))
    if os.geteuid():
        directory.chmod(0o500)
    elif shutil.which("setpriv"):
        directory.chmod(0o700)
        os.chown(directory, NOBODY, NOBODY)
        command = (*WITHOUT_PRIVILEGE, *command)
    else:
        pytest.skip("root may write everywhere, and setpriv of util-linux is missing")
    line = refused(*command)
    assert line.startswith(f"mooring: The state directory {directory} cannot be used: Permission")
    assert "--state-dir" in line


def test_a_file_where_the_state_directory_should_be_is_named(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    line = refused(*MOORING, *SIMULATED, "--state-dir", str(path))
    assert line.startswith(f"mooring: The state directory {path} cannot be used")


def test_a_missing_libvirt_is_named_with_what_to_install(tmp_path: Path) -> None:
    options = ("up", "--hypervisor", "libvirt", "--state-dir", str(tmp_path))
    line = refused(sys.executable, "-c", WITHOUT_LIBVIRT, *options, "--listen", "127.0.0.1:0")
    assert line.startswith("mooring: libvirt's Python binding is missing; install ")


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--listen", "here"), "must be ADDRESS:PORT"),
        (("--listen", "127.0.0.1:99999"), "A port is 1 to 65535, or 0 for any free one."),
        (("--hosts", "0"), "hosts"),
        (("--config", "/nonexistent.toml"), "does not exist"),
    ],
)
def test_a_setting_that_does_not_fit_is_named(
    options: tuple[str, ...], what: str, tmp_path: Path
) -> None:
    assert what in refused(*MOORING, "--state-dir", str(tmp_path), *options)


@pytest.mark.parametrize(
    ("script", "what"),
    [
        (WITHOUT_ROOT, "takes root's rights"),
        (WITHOUT_PROGRAMS, "the program libvirtd (package libvirt-daemon)"),
        (WITHOUT_LIBVIRT, "libvirt's Python binding"),
    ],
    ids=["root", "programs", "binding"],
)
def test_what_real_hosts_lack_is_named(script: str, what: str, tmp_path: Path) -> None:
    options = ("up", "--hypervisor", "libvirt", "--hosts", "3", "--state-dir", str(tmp_path))
    line = refused(sys.executable, "-c", script, *options, "--listen", "127.0.0.1:0")
    assert line.startswith("mooring: Making 3 real hosts of one machine takes ")
    assert what in line
    assert "choose --hypervisor simulated" in line


@pytest.mark.hosts
@pytest.mark.skipif(os.geteuid() != 0, reason="only root's guests become another user")
@pytest.mark.parametrize("hosts", ["1", "2"])
def test_a_directory_that_guests_cannot_pass_is_named(hosts: str, tmp_path: Path) -> None:
    if reason := why_no_real_guests():
        pytest.skip(reason)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    options = ("--hypervisor", "libvirt", "--hosts", hosts, "--state-dir", str(closed / "state"))
    line = refused(*MOORING, *options)
    if "real hosts of one machine takes" in line:
        pytest.skip(line)
    assert f"libvirt-qemu, who cannot pass the directory {closed}." in line
    assert "emulator_user" in line
