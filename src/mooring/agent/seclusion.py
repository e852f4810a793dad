"""Who may reach what an agent keeps: its own user, and QEMU where that is another one.

The files below an agent's directory are readable for whoever gets at them, since QEMU under the
machine's libvirt daemon runs as a user of its own. So it is the directory that lets nobody in.
"""

from __future__ import annotations

import os
import pwd
import re
from pathlib import Path

import structlog

log = structlog.get_logger()
EMULATOR = "libvirt-qemu"
"""The user whom Debian's packages run QEMU as, unless the daemon's settings name another."""
EMULATORS = (EMULATOR, "qemu")
"""Whom libvirt's packages of distributions have built in for that, which bring the user along."""
_SETTINGS = Path("/etc/libvirt/qemu.conf")
_DYNAMIC = re.compile(r"^\s*dynamic_ownership\s*=\s*(\d+)", re.MULTILINE)
_USER = re.compile(r'^\s*user\s*=\s*"\+?([^"]+)"', re.MULTILINE)
# libvirt's own file of settings has what is built in as a comment. An older one says root there.
_BUILT_IN = re.compile(r'^#user\s*=\s*"([^"]+)"', re.MULTILINE)
_OWNER_ALONE, _GROUP_PASSES, _ALL_PASS = 0o700, 0o710, 0o711


def seclude(directory: Path) -> None:
    """Let this user alone into a directory."""
    directory.chmod(_OWNER_ALONE)


def let_emulator_pass(directory: Path, name: str = "") -> None:
    """Let QEMU pass through a directory, and nobody else if possible.

    `name` is its user's; empty: the one of the machine's daemon.

    It is not where this user may not give the directory to QEMU's group: then everybody passes who
    knows a file's name, and the log says so.
    """
    try:
        user = pwd.getpwnam(name or emulator())
        os.chown(directory, -1, user.pw_gid)
    except (KeyError, OSError) as error:
        log.warning(
            "every user of this machine may read guests' files here, as QEMU's must",
            directory=str(directory),
            remedy="run the agent as root, or as a member of the group of QEMU's user",
            reason=str(error),
        )
        directory.chmod(_ALL_PASS)
        return
    directory.chmod(_GROUP_PASSES)


def emulator(settings: Path = _SETTINGS) -> str:
    """Return the name of QEMU's user: as set, or the one of those built in that is there.

    Raises OSError when its settings may not be read.
    """
    text = settings.read_text("utf-8") if settings.exists() else ""
    if named := _USER.findall(text):
        return named[-1]
    known = [name for name in _BUILT_IN.findall(text) if name in EMULATORS]
    return next(filter(is_there, (*known, *EMULATORS)), EMULATOR)


def is_there(user: str) -> bool:
    """Whether this machine has a user."""
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def gives_files(settings: Path = _SETTINGS) -> bool:
    """Whether the machine's daemon gives guests' files to QEMU's user. Raises OSError as above."""
    named = _DYNAMIC.findall(settings.read_text("utf-8")) if settings.exists() else []
    return not named or int(named[-1]) != 0


def named_root(settings: Path) -> bool:
    """Whether a file of QEMU's settings has it run as root, as the release before wrote them."""
    return _USER.findall(settings.read_text("utf-8"))[-1:] == ["root"]
