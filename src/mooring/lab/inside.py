"""Run inside a real host's namespaces: gives it a name and a libvirt daemon, and becomes its agent.

`python -m mooring.lab.inside DIRECTORY NAME USER COMMAND...`, as root, in network, mount and UTS
namespaces of its own (facts/real_hosts.md 4). A daemon that an earlier agent left goes on, and the
agent joins it: it sees the mounts that guests have, and the daemon those that the agent makes.
USER is whom guests run as; a daemon that has another one for them is started anew, without them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

from mooring.agent.emulator_files import EmulatorUser, find_user
from mooring.agent.libvirt.confinement import Confinement
from mooring.agent.libvirt.connection import forget_the_dead
from mooring.agent.mounts import read_mount_points
from mooring.agent.move_identity import LINK as MOVES
from mooring.agent.run import Budget, Runner, find_program
from mooring.agent.waiting import until
from mooring.errors import Bug, MooringError, Unavailable
from mooring.fence.threads import run_to_end
from mooring.lab.namespaces import Unnoted
from mooring.lab.real_hosts import EMULATORS
from mooring.lab.residents import NOTES, SHARES, find_residents
from mooring.process_groups import check_pid

_DIRECTORIES = ("etc/libvirt", "var/lib/libvirt", NOTES, "var/cache/libvirt", SHARES)
"""What each host has of its own."""
_PID = "libvirtd.pid"
_SOCKET = f"{NOTES}/libvirt-sock"
_PLAIN = """listen_tls = 0
listen_tcp = 1
auth_tcp = "none"
"""
_TLS = """listen_tls = 1
listen_tcp = 0
ca_file = "{moves}/cacert.pem"
cert_file = "{moves}/servercert.pem"
key_file = "{moves}/serverkey.pem"
"""
_EMULATORS_TLS = """migrate_tls_x509_cert_dir = "{moves}"
migrate_tls_x509_verify = 1
"""
_DAEMON = """auth_unix_rw = "none"
unix_sock_rw_perms = "0700"
unix_sock_ro_perms = "0700"
log_outputs = "3:file:{directory}/libvirtd.log"
host_uuid = "{host_uuid}"
"""
_NAMESPACE = Path("/proc/self/ns/net")
_MOUNTS = Path("/proc/self/mountinfo")
_UNLIMITED = Budget(cpu_s=0, memory_bytes=0)
_READY_S = 60.0


async def prepare(directory: Path, name: str, user: EmulatorUser) -> None:
    """Give the host its name, its directories and its daemon. Raises Unavailable."""
    socket.sethostname(name)
    runner = Runner(Unnoted())
    # While `/run/libvirt` is the machine's still, which tells those that have another one.
    there = await run_to_end(lambda: find_residents(_NAMESPACE))
    bound = _bound_before(directory)
    # What is mounted later reaches the guests that run by then, which have mounts of their own.
    await _run(runner, "mount", "--make-rshared", "/")
    for each in _DIRECTORIES:
        place = Path("/") / each
        if place in bound:
            continue
        for path in (directory / each, place):
            path.mkdir(parents=True, exist_ok=True)
        await _run(runner, "mount", "--bind", str(directory / each), str(place))
    if _answers():
        if _is_for(directory, user):
            return
        # Ended in order it leaves no note of a guest that never started.
        await _end_daemon(directory)
    else:
        words = " ".join(one.words for one in there)
        forget_the_dead(directory / NOTES / "qemu", lambda guest: f"guest={guest}," in words)
    _configure(directory, name, user)
    await _run(runner, "libvirtd", "-d", "-l", "-p", str(directory / _PID))
    if not await until(_answers, _READY_S):
        raise Unavailable(f"The libvirt daemon of host {name} does not answer.")


def _configure(directory: Path, name: str, user: EmulatorUser) -> None:
    """Write what daemon and emulators are told: of TLS where the agent has certificates for it."""
    host_uuid = uuid.uuid5(uuid.NAMESPACE_URL, f"{directory}/{name}")
    daemon = _DAEMON.format(directory=directory, host_uuid=host_uuid)
    emulators = _confine(user).conf()
    moves = directory / MOVES
    if moves.exists():
        daemon += _TLS.format(moves=moves)
        emulators += _EMULATORS_TLS.format(moves=moves)
    else:
        daemon += _PLAIN
    (directory / "etc/libvirt/libvirtd.conf").write_text(daemon, "utf-8")
    (directory / EMULATORS).write_text(emulators, "utf-8")


def _confine(user: EmulatorUser) -> Confinement:
    """Return what QEMU is shut in by.

    No cgroups: those of a guest that moves have one name at both hosts, which have one kernel.
    """
    return Confinement(user=user, has_namespaces=True) if user.uid else Confinement()


def _is_for(directory: Path, user: EmulatorUser) -> bool:
    """Whether the daemon that runs was started to run guests as a user."""
    wanted = _confine(user).conf()
    return (directory / EMULATORS).read_text("utf-8").startswith(wanted)


async def _end_daemon(directory: Path) -> None:
    """End the host's daemon; its guests go on, and the next one finds them."""
    pid = _find_daemon(directory)
    if pid is not None:
        os.kill(check_pid(pid), signal.SIGTERM)
    if not await until(lambda: _find_daemon(directory) is None and not _answers(), _READY_S):
        raise Unavailable(
            f"The libvirt daemon of {directory.name} does not end, and would run guests as it did "
            "before. End it, then start again."
        )


def _bound_before(directory: Path) -> frozenset[Path]:
    """Return what is mounted where the daemon is that an earlier agent left, nothing elsewhere."""
    if not _sees_mounts_of(_find_daemon(directory)):
        return frozenset()
    return frozenset(read_mount_points(_MOUNTS))


def _answers() -> bool:
    """Whether the host's daemon listens."""
    with socket.socket(socket.AF_UNIX) as trying:
        try:
            trying.connect(f"/{_SOCKET}")
        except OSError:
            return False
    return True


async def _run(runner: Runner, *words: str) -> None:
    done = await runner.run(words, _UNLIMITED)
    if done.code:
        raise Unavailable(f"{' '.join(words)}: {done.err.strip()[:300]}")


def _find_daemon(directory: Path) -> int | None:
    """Return the process of the daemon that an earlier agent left, None when there is none."""
    try:
        pid = check_pid(int((directory / _PID).read_text("ascii")))
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError, Bug):
        return None
    return pid if os.fsencode(directory / _PID) in words else None


def _sees_mounts_of(pid: int | None) -> bool:
    return pid is not None and Path(f"/proc/{pid}/ns/mnt").samefile("/proc/self/ns/mnt")


def _join_daemon(directory: Path, arguments: Sequence[str]) -> None:
    """Begin anew among the mounts of the daemon that an earlier agent left, if it did."""
    pid = _find_daemon(directory)
    if pid is not None and not _sees_mounts_of(pid):
        nsenter = [find_program("nsenter"), f"--mount=/proc/{pid}/ns/mnt", f"--wd={Path.cwd()}"]
        again = [sys.executable, "-m", "mooring.lab.inside", *arguments]
        os.execv(nsenter[0], [*nsenter, "--", *again])  # noqa: S606  (this very program)


def main(directory: str, name: str, user: str, *command: str) -> None:
    """Prepare, and become the command."""
    try:
        _join_daemon(Path(directory), (directory, name, user, *command))
        asyncio.run(prepare(Path(directory), name, find_user(user)))
    except (MooringError, OSError) as error:
        sys.stderr.write(f"mooring: {error}\n")
        sys.exit(1)
    os.execv(command[0], command)  # noqa: S606  (the command is the one that our parent made)


if __name__ == "__main__":
    main(*sys.argv[1:])
