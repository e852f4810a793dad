"""What mounts shares on a host: the protocol that every way to do it implements.

Every method may be repeated, also after the agent died in the middle of it. Calls about one path
come one after the other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from msgspec import Struct

from mooring.agent.share_mounts.exports import Export
from mooring.errors import Forbidden, Invalid, NotFound, Unavailable


class Wanted(Struct, frozen=True, kw_only=True):
    """A share that is to be mounted at a path: as a cephx id with its key, or from an address."""

    export: Export
    path: Path
    client: str
    key: str = ""

    def __repr__(self) -> str:
        """Leave the key out: what is wanted stands in logs and in failures of tests."""
        return f"Wanted({self.export.text} at {self.path} as {self.client})"


class ShareMounter(Protocol):
    """Mounts the shares of one protocol, each at a path below the base."""

    @property
    def base(self) -> Path:
        """Below which shares are mounted; absolute, without links."""
        ...

    async def prepare(self) -> None:
        """Make ready, and remove what calls have left that were killed."""
        ...

    async def mount(self, wanted: Wanted, operation_key: str) -> None:
        """Mount a share, or find something mounted at its path; what fails leaves nothing there.

        Raises Invalid (not to be mounted here at all), NotFound (no such export), Forbidden (no
        rule lets this host in) and Unavailable: not in time, or refused for now.
        """
        ...

    async def unmount(self, path: Path) -> None:
        """Unmount a path, or find it unmounted. Raises Unavailable while something has it open.

        What its server keeps waiting goes from the host's names all the same: who has it open is
        for the caller to know.
        """
        ...

    async def mounted(self) -> frozenset[Path]:
        """Return what is mounted directly below the base."""
        ...

    async def check(self, path: Path) -> None:
        """Raise Unavailable unless what is mounted at a path answers."""
        ...


def no_export(export: Export, private: str = "") -> NotFound:
    """Return the refusal for a location where nothing is."""
    return NotFound(
        f"There is no export {export.text} for this host. Nothing was mounted; see whether the "
        "share is still there, and whether an access rule lets this host in.",
        private=private,
    )


def not_let_in(export: Export, client: str, private: str = "") -> Forbidden:
    """Return the refusal for a client that no rule lets in."""
    return Forbidden(
        f"The server of {export.text} does not let {client} in. Nothing was mounted; allow access "
        "to the share first.",
        private=private,
    )


def not_here(export: Export, why: str, private: str = "") -> Invalid:
    """Return the refusal of a host that cannot mount such a share."""
    return Invalid(
        f"This host cannot mount {export.text}: {why}. Nothing was mounted; choose another host, "
        "or see to this one.",
        private=private,
    )


def no_answer(path: Path, private: str = "") -> Unavailable:
    """Return what is said of a mounted share that keeps its users waiting."""
    return Unavailable(
        f"The share that is mounted at {path} does not answer. See to its server and the network "
        "between, and ask again.",
        private=private,
    )
