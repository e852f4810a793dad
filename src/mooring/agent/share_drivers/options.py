"""What a pool of shares is configured with, beside what all pools have."""

from __future__ import annotations

from msgspec import Struct

_SYSTEM_BUS = "unix:path=/run/dbus/system_bus_socket"


class NfsShareOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pool that NFS-Ganesha gives away."""

    address: str
    """The one at which clients reach Ganesha."""
    bus: str = _SYSTEM_BUS
    """The D-Bus that Ganesha is on, as D-Bus writes addresses."""
    export_ids: tuple[int, int] = (1000, 65535)
    """The first and last number that exports of this pool get. Two pools of one Ganesha share
    none."""


class CephfsShareOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pool of subvolumes of CephFS."""

    conf: str = "/etc/ceph/ceph.conf"
    client: str = "mooring"
    """The cephx id that asks for shares, without `client.`; its keyring is where `conf` says."""
    filesystem: str = "cephfs"
    group: str = "mooring"
    """The group of subvolumes that are this pool's, all of them."""
    mode: str = "755"
    """Of a new share's root directory."""
