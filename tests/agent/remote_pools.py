"""Pools on remote file systems, with stand-ins for the mount, the array and its tool."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from mooring.agent.drivers.remote import open_remote_pools
from mooring.agent.drivers.remote_files import RemoteFiles, Tools
from mooring.agent.mounts import Mounts
from mooring.agent.qemu_img import QemuImg
from mooring.agent.run import Runner
from mooring.agent.settings import PoolSettings
from mooring.agent_api.volumes import VolumeFile
from mooring.fence.journal import Journal
from tests.agent.arrays import (
    LOGIN,
    PASSWORD,
    StandInArray,
    StandInOntap,
    StandInPowerstore,
    make_certificate,
)
from tests.agent.shares import EXPORT, Shares

KINDS = ("nfs", "netapp_nfs", "powerstore_nfs", "quobyte")
CONTENT = b"MOORING" + b"\1" * 65529
HOST = "host-1"
QUOBYTE = "registry.example.com/volumes"
_DELLFCOPY = """#!/bin/sh
echo "dellfcopy $*" >>{here}/calls
if [ -e {here}/refuse ]; then echo "fastclone: not supported" >&2; exit 1; fi
cp --sparse=always "$4" "$6"
"""


class RemotePool:
    """A pool of one share, and all that stands in for the outside."""

    def __init__(
        self, driver: RemoteFiles, shares: Shares, mounts: Mounts, array: StandInArray | None
    ) -> None:
        self.driver, self.shares, self.mounts = driver, shares, mounts
        self._array = array

    @property
    def array(self) -> StandInArray:
        """The array behind the share."""
        assert self._array is not None
        return self._array


def volume(remote: RemotePool, volume_id: str = "v1", size_gib: int = 1) -> VolumeFile:
    """Return what asks such a pool for a volume."""
    return VolumeFile(
        volume_id=volume_id, pool="pool", size_gib=size_gib, format=remote.driver.pool.format
    )


@asynccontextmanager
async def remote_pool(
    kind: str, disk_format: str, directory: Path, journal: Journal, **options: Any
) -> AsyncGenerator[RemotePool]:
    """Make a pool of a driver, not yet set up. `options` are its own, beside those it needs."""
    shares = Shares(directory / "outside")
    if kind == "quobyte":
        shares.set_options("rw,relatime", "fuse.quobyte")
    share = shares.export(QUOBYTE if kind == "quobyte" else EXPORT)
    array: StandInArray | None = None
    if kind == "netapp_nfs":
        array = StandInOntap(share)
    elif kind == "powerstore_nfs":
        certificate = make_certificate(directory)
        array = StandInPowerstore(share, certificate)
        tool = shares.add_program("dellfcopy", _DELLFCOPY.format(here=shares.directory))
        options = {"driver_ssl_cert_path": str(certificate), "dellfcopy": str(tool), **options}
    given = _options(kind, array, qcow2=disk_format == "qcow2") | options
    plain = {"name": "pool", "driver": kind, kind: given}
    pool = msgspec.convert(plain, PoolSettings)
    runner = Runner(journal)
    mounts = Mounts(shares.settings(), directory / "state", runner)
    mounts.prepare()
    [driver] = open_remote_pools(pool, Tools(HOST, QemuImg(runner), mounts, runner))
    try:
        yield RemotePool(driver, shares, mounts, array)
    finally:
        await driver.close()
        await mounts.close()
        if array is not None:
            array.close()


def _options(kind: str, array: StandInArray | None, *, qcow2: bool) -> dict[str, Any]:
    if kind == "quobyte":
        return {"quobyte_volume_url": f"quobyte://{QUOBYTE}", "quobyte_qcow2_volumes": qcow2}
    host, _, path = EXPORT.partition(":")
    nfs = {"nas_host": host, "nas_share_path": path, "nfs_qcow2_volumes": qcow2}
    if array is None:
        return nfs
    if kind == "netapp_nfs":
        return nfs | {
            "netapp_server_hostname": "127.0.0.1",
            "netapp_server_port": array.port,
            "netapp_login": LOGIN,
            "netapp_password": PASSWORD,
            "netapp_vserver": "svm1",
        }
    return nfs | {
        "san_ip": "127.0.0.1",
        "san_api_port": array.port,
        "san_login": LOGIN,
        "san_password": PASSWORD,
    }
