"""What a pool's options come to: which shares, mounted how. Whatever is missing is told at once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, TypeVar

from mooring.agent.brick.requests import MountRequest
from mooring.agent.connections import EXPORTS
from mooring.agent.drivers.remote_files import Share
from mooring.agent.drivers.remote_options import NfsOptions, QuobyteOptions
from mooring.agent.mounts import Mounts, read_mount_flags
from mooring.agent.settings import PoolSettings
from mooring.errors import Invalid

T = TypeVar("T")


def require_options(pool: PoolSettings, options: T | None) -> T:
    """Return the options of a pool's driver. Raises Invalid when they are not set."""
    if options is None:
        raise Invalid(
            f"Pool {pool.name} has the driver {pool.driver} and no options for it; set "
            f"`{pool.driver}` in the pool."
        )
    return options


def read_nfs_shares(
    pool: PoolSettings, options: NfsOptions, mounts: Mounts
) -> list[tuple[str, Share]]:
    """Return the shares of an NFS pool, each with the name of its pool. Raises Invalid."""
    if options.nas_host and options.nas_share_path:
        host = f"[{options.nas_host}]" if ":" in options.nas_host else options.nas_host
        export = f"{host}:{options.nas_share_path}"
        return [(pool.name, _nfs_share(pool, options, mounts, (export, "")))]
    if not options.nfs_shares_config or options.nas_host or options.nas_share_path:
        raise Invalid(
            f"Pool {pool.name} names no share: set nas_host and nas_share_path, or "
            "nfs_shares_config."
        )
    lines = _read_lines(pool, Path(options.nfs_shares_config))
    named = [(_name(pool, export), (export, told)) for export, told in lines]
    if not named or len({name for name, _ in named}) < len(named):
        raise Invalid(
            f"The file {options.nfs_shares_config} of pool {pool.name} names no share, or two that "
            "cannot be told apart."
        )
    return [(name, _nfs_share(pool, options, mounts, share)) for name, share in named]


def read_quobyte_share(pool: PoolSettings, options: QuobyteOptions, mounts: Mounts) -> Share:
    """Return the share of a Quobyte pool. Raises Invalid."""
    export = options.quobyte_volume_url.removeprefix("quobyte://")
    _check_export(pool, "quobyte", export)
    mount = MountRequest(
        kind="quobyte",
        export=export,
        base=_base(pool, options.quobyte_mount_point_base, mounts),
        client_config=options.quobyte_client_cfg or mounts.settings.quobyte_client_cfg,
    )
    return Share(
        mount=mount,
        thick=not options.quobyte_sparsed_volumes,
        # Upstream's Quobyte driver has no option for it.
        snapshots=True,
        # Upstream's Quobyte driver takes "auto" for no.
        secure_operations=_explicit(options.nas_secure_file_operations),
        secure_permissions=_explicit(options.nas_secure_file_permissions),
    )


def _nfs_share(
    pool: PoolSettings, options: NfsOptions, mounts: Mounts, share: tuple[str, str]
) -> Share:
    export, told = share
    _check_export(pool, "nfs", export)
    if options.nfs_mount_attempts < 1:
        raise Invalid(f"Pool {pool.name} has nfs_mount_attempts below 1.")
    try:
        flags = read_mount_flags(told)
    except Invalid as error:
        raise Invalid(f"Pool {pool.name}, share {export}: {error.public}") from error
    mount = MountRequest(
        kind="nfs",
        export=export,
        base=_base(pool, options.nfs_mount_point_base, mounts),
        options=options.nas_mount_options or options.nfs_mount_options,
        flags=flags,
        attempts=options.nfs_mount_attempts,
    )
    return Share(
        mount=mount,
        options=told,
        thick=not options.nfs_sparsed_volumes,
        snapshots=options.nfs_snapshot_support,
        secure_operations=options.nas_secure_file_operations,
        secure_permissions=options.nas_secure_file_permissions,
    )


def _read_lines(pool: PoolSettings, path: Path) -> list[tuple[str, str]]:
    """Return export and options of each line. Raises Invalid."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(
            f"The file nfs_shares_config of pool {pool.name} cannot be read: {error}."
        ) from error
    lines = (line.strip() for line in text.splitlines())
    found = (line.partition(" ") for line in lines if line and not line.startswith("#"))
    return [(export, told.strip()) for export, _, told in found]


def _name(pool: PoolSettings, export: str) -> str:
    return f"{pool.name}-{re.sub(r'[^A-Za-z0-9.]+', '-', export).strip('-')}"


def _base(pool: PoolSettings, option: str, mounts: Mounts) -> str:
    if option and not Path(option).is_absolute():
        raise Invalid(f"Pool {pool.name} has a mount point base that is not absolute: {option}.")
    return str(Path(option).resolve() if option else mounts.base)


def _check_export(pool: PoolSettings, kind: Literal["nfs", "quobyte"], export: str) -> None:
    if not EXPORTS[kind].match(export):
        raise Invalid(f"Pool {pool.name} has a share that cannot be one of {kind}: {export}.")


def _explicit(option: Literal["auto", "true", "false"]) -> Literal["true", "false"]:
    return "true" if option == "true" else "false"
