"""Export locations of shares, checked before anything is done with them.

They come from storage that may be somebody else's, and become words of commands and parts of paths.
"""

from __future__ import annotations

import re

from msgspec import Struct

from mooring.agent_api.guest_shares import MountRequest
from mooring.agent_api.shares import Protocol
from mooring.errors import Invalid

_IPV6 = r"\[[0-9A-Fa-f:.]{2,45}\]"
_HOST = rf"(?:{_IPV6}|[A-Za-z0-9][A-Za-z0-9.-]{{0,252}})"
_MONITOR = rf"{_HOST}(?::[0-9]{{1,5}})?"
_PATH = r"/[^\s:\\]{0,1023}"
_EXPORTS: dict[Protocol, re.Pattern[str]] = {
    "NFS": re.compile(rf"({_HOST}):({_PATH})"),
    "CEPHFS": re.compile(rf"({_MONITOR}(?:,{_MONITOR}){{0,31}}):({_PATH})"),
}
_CEPHX = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_KEY = re.compile(r"[A-Za-z0-9+/=_-]{1,256}")


class Export(Struct, frozen=True):
    """A place that a share is mounted from: one server of NFS, or monitors of CephFS."""

    protocol: Protocol
    servers: str
    path: str

    @property
    def text(self) -> str:
        """The location as clients write it."""
        return f"{self.servers}:{self.path}"


def read_export(protocol: Protocol, text: str) -> Export:
    """Return what an export location names. Raises Invalid for anything that is none.

    One colon stands before the path and none in it: upstream's helpers take the first, mount the
    last (facts/shared_file_systems.md 6.7).
    """
    found = _EXPORTS[protocol].fullmatch(text)
    if found is None or not text.isprintable() or {"..", "."} & set(found[2].split("/")):
        raise Invalid(
            f"'{text[:200]!a}' is no export location of {protocol} that this host mounts. Nothing "
            "was mounted; see to what the share's storage tells."
        )
    return Export(protocol, found[1], found[2])


def check_client(request: MountRequest) -> None:
    """Raise Invalid unless who mounts is said as the protocol wants it."""
    if request.protocol == "NFS":
        if request.access_to or request.access_key:
            raise Invalid(
                "NFS knows its clients by their addresses, and a cephx id or key was named. "
                "Nothing was mounted."
            )
        return
    if not _CEPHX.fullmatch(request.access_to) or not _KEY.fullmatch(request.access_key):
        raise Invalid(
            "CephFS is mounted with a cephx id and its key, and what was named is none. Nothing "
            "was mounted; see to the share's access rule."
        )
