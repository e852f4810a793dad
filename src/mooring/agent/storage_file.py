"""The file that names a host's pools and how it mounts shares: the setting `storage`."""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec
from msgspec import Struct

from mooring import toml_file, typed
from mooring.agent.settings import MountSettings, PoolSettings, SharePoolSettings
from mooring.errors import Invalid


class Storage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file's content: `[[pools]]`, `[[share_pools]]` and `[mounts]`, by the structs' fields."""

    pools: tuple[PoolSettings, ...] = ()
    share_pools: tuple[SharePoolSettings, ...] = ()
    mounts: MountSettings = MountSettings()


def read_storage(file: str) -> Storage:
    """Return what a file names; nothing for "". Raises Invalid in one line that says where."""
    if not file:
        return Storage()
    path = Path(file).expanduser()
    try:
        storage = typed.convert(toml_file.read(path, "storage file"), Storage)
        readable = stat.S_IMODE(path.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO)
    except msgspec.ValidationError as error:
        raise Invalid(f"The storage file {path} does not fit: {error}.") from error
    if readable and any(pool.netapp_nfs or pool.powerstore_nfs for pool in storage.pools):
        raise Invalid(
            f"The storage file {path} holds the password of an array, and others than its owner "
            "may read it. Run chmod 600 on it."
        )
    return storage
