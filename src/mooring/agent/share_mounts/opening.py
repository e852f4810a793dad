"""Which ways of mounting a host has."""

from __future__ import annotations

import os
from pathlib import Path

from mooring.agent.run import Runner
from mooring.agent.settings import AgentSettings
from mooring.agent.share_mounts import nfs, simulated
from mooring.agent.share_mounts.base import ShareMounter
from mooring.agent.share_mounts.cephfs import CephfsMounts
from mooring.agent.share_mounts.refusing import Refusing
from mooring.agent.share_mounts.simulated import SimulatedMounts
from mooring.agent_api.shares import Protocol
from mooring.errors import Invalid

DIRECTORY = "guest-shares"
"""In the state directory: where shares are mounted unless the settings say otherwise."""


def open_mounters(
    settings: AgentSettings, runner: Runner, *, simulated_host: bool
) -> dict[Protocol, ShareMounter]:
    """Return what mounts the shares of each protocol, not yet made ready. Raises Invalid."""
    wanted = settings.mounts.shares
    usual = simulated.BASE if simulated_host else settings.state_dir.resolve() / DIRECTORY
    nfs_base = _base(wanted.nfs_mount_point_base, usual / "nfs")
    ceph_base = _base(wanted.cephfs_mount_point_base, usual / "cephfs")
    if nfs_base == ceph_base:
        raise Invalid(
            f"Shares of NFS and of CephFS are both to be mounted below {nfs_base}. Give each "
            "protocol a mount point base of its own."
        )
    if simulated_host:
        file = settings.state_dir / "share-mounts"
        return {
            "NFS": SimulatedMounts(nfs_base, file.with_suffix(".nfs.json")),
            "CEPHFS": SimulatedMounts(ceph_base, file.with_suffix(".cephfs.json")),
        }
    return {
        "NFS": nfs.choose(nfs_base, settings.mounts, runner),
        "CEPHFS": _open_cephfs(ceph_base, settings, runner),
    }


def _open_cephfs(base: Path, settings: AgentSettings, runner: Runner) -> ShareMounter:
    if os.geteuid() != 0:
        return Refusing(base, "mounting takes root, and its agent is not")
    return CephfsMounts(base, settings.mounts, runner, settings.state_dir / "share-clients")


def _base(option: str, usual: Path) -> Path:
    if option and not Path(option).is_absolute():
        raise Invalid(f"The mount point base {option} is not absolute.")
    return Path(option).resolve() if option else usual
