"""What the agent asks the mounting helper; both sides import it, and it imports no os-brick."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

MODULE = "mooring.agent.brick.mounting"
"""What the helper runs."""

ShareKind = Literal["nfs", "quobyte"]


class MountRequest(Struct, frozen=True, kw_only=True):
    """Mount one export under `base`, in the directory that os-brick names after it."""

    kind: ShareKind
    export: str
    """`host:/path` for NFS; `host,host/volume` for Quobyte."""
    base: str
    """Absolute, without links: the host's table of mounts is asked for what lies under it."""
    options: str = ""
    """What `mount -o` takes; what one share needs beside it stands in `flags`."""
    flags: tuple[str, ...] = ()
    client_config: str = ""
    """The file of a Quobyte client's settings."""
    attempts: int = 1
    """How often it is tried, a second apart."""


class UnmountRequest(Struct, frozen=True):
    """Unmount one mount point."""

    path: str
