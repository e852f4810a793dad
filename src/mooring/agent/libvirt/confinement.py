"""What shuts QEMU in, beside its own sandbox, under a libvirt that Mooring brings along.

A user of its own, a view of /dev of its own (a mount namespace), and cgroups; each where the
machine can. Source: qemu.conf (user, namespaces, cgroup_controllers) and facts/real_hosts.md 3.
"""

from __future__ import annotations

import os
from pathlib import Path

import structlog
from msgspec import Struct

from mooring.agent import seclusion
from mooring.agent.emulator_files import EmulatorUser, find_user
from mooring.agent.run import Runner
from mooring.fence.threads import run_to_end

log = structlog.get_logger()
_MOUNTS = Path("/proc/self/mountinfo")
_MACHINED = (
    Path("/run/systemd/system"),
    Path("/run/dbus/system_bus_socket"),
    Path("/usr/lib/systemd/systemd-machined"),
)
"""What is there where libvirt has systemd-machined make cgroups."""
_NAMESPACES = ("mount",)
_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "devices", "memory", "blkio")


class Confinement(Struct, frozen=True, kw_only=True):
    """What a guest's QEMU is shut in by."""

    user: EmulatorUser | None = None
    """None: as whoever runs libvirt."""
    has_namespaces: bool = False
    has_cgroups: bool = False

    def conf(self) -> str:
        """Return qemu.conf."""
        lines = ['security_driver = "none"', 'stdio_handler = "file"', "remember_owner = 0"]
        if self.user is not None:
            lines += [f'user = "{self.user.name}"', f'group = "+{self.user.gid}"']
            # Files are given to it by the agent (`mooring.agent.emulator_files`).
            lines += ["dynamic_ownership = 0"]
        elif os.geteuid() == 0:
            lines += ['user = "root"', 'group = "root"']
        lines += [f"namespaces = [{_listed(_NAMESPACES if self.has_namespaces else ())}]"]
        lines += [f"cgroup_controllers = [{_listed(_CONTROLLERS if self.has_cgroups else ())}]"]
        return "\n".join([*lines, ""])


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(f'"{word}"' for word in words)


def choose_user(name: str) -> EmulatorUser | None:
    """Return whom the agent gives guests' files to; None where that is nobody. Blocking.

    `name` is QEMU's user under a libvirt of our own; empty: there is a daemon, which its settings
    may tell to leave files alone. Raises Unavailable: there is no such user; OSError.
    """
    if os.geteuid() != 0:
        return None
    if not name and seclusion.gives_files():
        return None
    user = find_user(name or seclusion.emulator())
    if user.uid:
        return user
    log.warning(
        "guests run as root: whoever breaks out of one has all rights on this machine",
        remedy=f"name another user, such as {seclusion.EMULATOR}, in the setting emulator_user",
    )
    return None


async def find(runner: Runner, user: EmulatorUser | None, state_dir: Path) -> Confinement:
    """Return what this machine lets QEMU be shut in by, and log what it does not."""
    if user is None:
        return Confinement()
    no_mounts = await _why_no_mounts(runner, state_dir)
    no_cgroups = await run_to_end(_why_no_cgroups)
    if no_mounts:
        log.warning("guests share the machine's /dev and mounts", reason=no_mounts)
    if no_cgroups:
        log.warning("guests have no cgroups of their own", reason=no_cgroups)
    return Confinement(
        user=user,
        has_namespaces=not no_mounts,
        has_cgroups=not no_cgroups,
    )


async def _why_no_mounts(runner: Runner, state_dir: Path) -> str:
    """Return what keeps guests from having mounts of their own, "" for nothing."""
    tried = await runner.run(["unshare", "--mount", "true"])
    if tried.code:
        return f"this machine does not let the agent make them: {tried.err.strip()[:200]}"
    if not await run_to_end(lambda: is_shared(state_dir.resolve())):
        return (
            "what is mounted later, for a volume of a share, would not reach guests that run by "
            "then: mount --make-rshared / lets it"
        )
    return ""


def is_shared(directory: Path) -> bool:
    """Whether other namespaces see what is mounted below a directory (proc(5), mountinfo)."""
    best, shared = Path("/"), False
    for line in _MOUNTS.read_text("utf-8", "replace").splitlines():
        words = line.partition(" - ")[0].split()
        place = Path(words[4])
        # Of several mounts at one place the last one counts.
        if directory.is_relative_to(place) and len(place.parts) >= len(best.parts):
            best, shared = place, any(word.startswith("shared:") for word in words[6:])
    return shared


def _why_no_cgroups() -> str:
    """Return what keeps guests from having cgroups of their own, "" for nothing."""
    if all(path.exists() for path in _MACHINED):
        return ""
    return (
        "without systemd-machined libvirt would take them out of the agent's, and so out of what "
        "that is held to; install systemd-container where systemd runs"
    )
