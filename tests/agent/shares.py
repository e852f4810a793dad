"""Shares without a server and without root: stand-ins for mount and umount, on the helper's PATH.

A share is a directory, a mount is a link to it, and the table of mounts is a file of our own. Each
call is written down. What the stand-in is told in files of its directory it does: `hang`, `refuse`,
`busy`, and `slow` for unmounts that are not lazy.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mooring.agent.mounts import Mounts, mount_point, read_mount_points
from mooring.agent.run import Runner
from mooring.agent.settings import MountSettings
from mooring.fence.journal import Journal

EXPORT = "192.0.2.7:/volumes"

_MOUNT = """#!/bin/sh
here={here}
echo "$(basename "$0") $*" >>"$here/calls"
if [ -e "$here/hang" ]; then sleep 600; fi
if [ -e "$here/refuse" ]; then echo "mount: access denied by server" >&2; exit 32; fi
for word; do
    case "$word" in
    -c) break ;;
    esac
    share=$path path=$word
done
target=$here/shares/$(printf %s "$share" | md5sum | cut -d' ' -f1)
[ -d "$target" ] || {{ echo "mount: no such export: $share" >&2; exit 32; }}
rmdir "$path" && ln -s "$target" "$path"
echo "31 1 0:30 / $path rw - $(cat "$here/type") $share $(cat "$here/options")" >>"$here/table"
"""
_UMOUNT = """#!/bin/sh
here={here}
echo "umount $*" >>"$here/calls"
if [ -e "$here/hang" ]; then sleep 600; fi
if [ -e "$here/busy" ]; then echo "umount: target is busy" >&2; exit 32; fi
if [ -e "$here/slow" ] && [ "$1" != --lazy ]; then sleep 600; fi
for path; do :; done
rm "$path" && mkdir "$path"
grep -vF " $path " "$here/table" >"$here/table.new"
mv "$here/table.new" "$here/table"
"""


class Shares:
    """The exports of a server that is not there, and how to mount them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "shares").mkdir(parents=True, exist_ok=True)
        (directory / "bin").mkdir(exist_ok=True)
        (directory / "table").touch()
        self.set_options("rw,vers=4.2")
        for name, text in (
            ("mount", _MOUNT),
            ("mount.quobyte", _MOUNT),
            ("umount", _UMOUNT),
        ):
            self.add_program(name, text.format(here=directory))

    def add_program(self, name: str, text: str) -> Path:
        """Put a program first on the helper's PATH."""
        path = self.directory / "bin" / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def export(self, name: str = EXPORT) -> Path:
        """Make an export; returns the directory behind it."""
        path = mount_point(self.directory / "shares", name)
        path.mkdir(exist_ok=True)
        return path

    def tell(self, what: str, *, on: bool = True) -> None:
        """Let the stand-in hang, refuse or be busy, or no longer."""
        path = self.directory / what
        if on:
            path.touch()
        else:
            path.unlink()

    def forget_mounts(self) -> None:
        """Let the host start anew: nothing is mounted any more, and its directories are empty."""
        for path in read_mount_points(self.directory / "table"):
            path.unlink()
            path.mkdir()
        (self.directory / "table").write_text("")

    def set_options(self, options: str, file_system: str = "nfs4") -> None:
        """Set what the table of mounts says of a mount that is made from now on."""
        (self.directory / "options").write_text(options)
        (self.directory / "type").write_text(file_system)

    def calls(self) -> list[str]:
        """Return how the stand-ins were called."""
        path = self.directory / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def settings(self, timeout_s: float = 30.0, **other: Any) -> MountSettings:
        """Return what makes an agent use the stand-ins."""
        return MountSettings(
            program_path=str(self.directory / "bin"),
            table=str(self.directory / "table"),
            timeout_s=timeout_s,
            **other,
        )

    def mounts(self, journal: Journal, timeout_s: float = 30.0, **other: Any) -> Mounts:
        """Return the mounts of a host that uses the stand-ins."""
        mounts = Mounts(
            self.settings(timeout_s, **other), self.directory / "state", Runner(journal)
        )
        mounts.prepare()
        return mounts


def processes_of(directory: Path) -> list[str]:
    """Return the command lines that name a directory, of whatever still runs."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(directory) in line and int(process.name) != os.getpid():
            found.append(line)
    return found


def info(name: str = "volume-v1", **data: Any) -> dict[str, Any]:
    """Return connection_info of a volume on the share."""
    shown = {"export": EXPORT, "name": name, "format": "raw", **data}
    return {"driver_volume_type": "nfs", "data": shown}
