"""The pools on remote file systems: which driver with which options makes which pools."""

from __future__ import annotations

from msgspec.structs import replace

from mooring.agent.drivers.remote_cache import CachePolicy
from mooring.agent.drivers.remote_files import Array, RemoteFiles, Share, Tools
from mooring.agent.drivers.remote_netapp import NetappArray, check_netapp
from mooring.agent.drivers.remote_powerstore import PowerstoreArray, check_powerstore
from mooring.agent.drivers.remote_shares import (
    read_nfs_shares,
    read_quobyte_share,
    require_options,
)
from mooring.agent.settings import PoolSettings


def open_remote_pools(pool: PoolSettings, tools: Tools) -> list[RemoteFiles]:
    """Return a driver for each share of a pool, not yet set up. Raises Invalid: wrong options."""
    match pool.driver:
        case "nfs":
            return _nfs(pool, tools)
        case "netapp_nfs":
            return _netapp(pool, tools)
        case "powerstore_nfs":
            return _powerstore(pool, tools)
        case "quobyte":
            options = require_options(pool, pool.quobyte)
            share = read_quobyte_share(pool, options, tools.mounts)
            return [RemoteFiles(_formed(pool, qcow2=options.quobyte_qcow2_volumes), share, tools)]
        case _:
            return []


def _nfs(pool: PoolSettings, tools: Tools) -> list[RemoteFiles]:
    options = require_options(pool, pool.nfs)
    formed = _formed(pool, qcow2=options.nfs_qcow2_volumes)
    return [
        RemoteFiles(replace(formed, name=name), share, tools)
        for name, share in read_nfs_shares(pool, options, tools.mounts)
    ]


def _netapp(pool: PoolSettings, tools: Tools) -> list[RemoteFiles]:
    options = require_options(pool, pool.netapp_nfs)
    check_netapp(pool, options)
    formed = _formed(pool, qcow2=options.nfs_qcow2_volumes)
    policy = CachePolicy(
        start_percent=options.thres_avl_size_perc_start,
        stop_percent=options.thres_avl_size_perc_stop,
        expiry_minutes=options.expiry_thres_minutes,
    )

    def make(name: str, share: Share) -> RemoteFiles:
        array: Array = NetappArray(options, share.mount.export, tools.runner)
        return RemoteFiles(replace(formed, name=name), share, tools, array=array, policy=policy)

    return [make(name, share) for name, share in read_nfs_shares(pool, options, tools.mounts)]


def _powerstore(pool: PoolSettings, tools: Tools) -> list[RemoteFiles]:
    options = require_options(pool, pool.powerstore_nfs)
    check_powerstore(pool, options)
    formed = _formed(pool, qcow2=options.nfs_qcow2_volumes)

    def make(name: str, share: Share) -> RemoteFiles:
        array: Array = PowerstoreArray(options, share.mount.export, tools.runner)
        return RemoteFiles(replace(formed, name=name), share, tools, array=array)

    return [make(name, share) for name, share in read_nfs_shares(pool, options, tools.mounts)]


def _formed(pool: PoolSettings, *, qcow2: bool) -> PoolSettings:
    """Return the pool with the format that the driver's options choose."""
    return replace(pool, format="qcow2" if qcow2 else "raw")
