"""Who needs which mounted share: a small file for each server's use of a share.

It is written before a share is mounted and struck after it is unmounted, so what is mounted always
belongs to somebody. The files outlive the agent and the machine's next start; mounts do not.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from mooring.agent import files
from mooring.agent_api.guest_shares import UnreadMount
from mooring.agent_api.shares import Protocol


class ShareUse(Struct, frozen=True, kw_only=True):
    """One server's use of a share on this host."""

    server_id: str
    share_id: str
    protocol: Protocol
    path: str
    client: str = ""
    """The cephx id as which it was mounted."""


class ShareUsers:
    """The uses of one host. All of it blocks."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._listed = files.Listed(directory, ShareUse, forced=True)

    def prepare(self) -> None:
        """Make the directory, and remove what was never whole."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in self._directory.glob(f"*{files.PARTIAL}"):
            left.unlink(missing_ok=True)

    def find(self, server_id: str, share_id: str) -> ShareUse | None:
        """Return a server's use of a share, or None. Raises DamagedRecord, OSError."""
        return files.read_record(self._file(server_id, share_id), ShareUse, forced=True)

    def note(self, use: ShareUse) -> None:
        """Write a use to disk, whole or not at all. Raises NoCapacity."""
        files.write_record(self._file(use.server_id, use.share_id), use, forced=True)

    def strike(self, use: ShareUse) -> None:
        """Remove a use."""
        self._file(use.server_id, use.share_id).unlink(missing_ok=True)
        files.sync_directory(self._directory)

    def look(self) -> tuple[list[ShareUse], list[UnreadMount]]:
        """Return all uses that can be read, by server and share, and those that cannot, with why.

        Where there are any of these, nobody can tell of which mount they are.
        """
        found = self._listed.look()
        return found, [_unread(path, why) for path, why in self._listed.damaged.items()]

    def of(self, path: Path) -> list[ShareUse]:
        """Return those of a mount point that are not damaged. Raises OSError."""
        return [use for use in self._listed.read() if use.path == str(path)]

    def _file(self, server_id: str, share_id: str) -> Path:
        # No id has a dot in it, as it comes from the path of a verb.
        return self._directory / f"{server_id}.{share_id}.json"


def _unread(path: Path, why: str) -> UnreadMount:
    server_id, _, share_id = path.stem.partition(".")
    return UnreadMount(server_id=server_id, share_id=share_id, why=why)
