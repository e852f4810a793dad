"""Shares in guests: what a host mounts for a server, and what the server's guest has of it.

Source: facts/compute.md 7.5 and facts/shared_file_systems.md 6.7.
"""

from __future__ import annotations

from msgspec import Struct

from mooring.agent_api.shares import Protocol

GUEST_SHARES = 32
"""Shares that one guest can have, each a device of its own."""


class MountRequest(Struct, frozen=True, kw_only=True):
    """Body of `PUT /servers/{server_id}/shares/{share_id}`: mounted here for that server.

    `export` is a location as shares have it, `host:/path` or of CephFS `monitor:port,...:/path`.
    CephFS is mounted as the cephx id `access_to`, without `client.`, with its key.
    """

    export: str
    protocol: Protocol
    access_to: str = ""
    access_key: str = ""
    """A secret: it is kept for as long as the mount takes to be made, and told to nobody."""


class Mounted(Struct, frozen=True):
    """Where a share is on this host: below the protocol's mount base, named after its export."""

    path: str


class GuestShare(Struct, frozen=True, kw_only=True):
    """A share as a guest has it: by a tag of 1 to 36 letters, digits and dashes (virtiofs)."""

    share_id: str
    tag: str
    path: str
    """Where it is mounted, as `Mounted` said."""


class ShareClient(Struct, frozen=True, kw_only=True):
    """A host as a client of shares."""

    address: str = ""
    """The one that rules of NFS shares are made for; empty where there are no guests."""
    mount_bases: dict[Protocol, str] = {}
    """Below which directory shares are mounted. A server with shares moves only between hosts that
    have the same."""


class MountedShare(Struct, frozen=True, kw_only=True):
    """One server's use of a share on a host, for doctor and for whoever clears up."""

    server_id: str
    share_id: str
    path: str
    mounted: bool
    """Whether the share is mounted now: not so after the machine has started anew."""


class UnreadMount(Struct, frozen=True, kw_only=True):
    """A server's use of a share whose record the host cannot read, and why.

    Where the share is mounted, and whether it is, is not known meanwhile.
    """

    server_id: str
    share_id: str
    why: str
