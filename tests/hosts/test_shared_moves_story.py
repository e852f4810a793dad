"""The end-to-end tests of specs 003: servers with shares move cold between two real hosts.

The whole cloud takes part, made by `mooring up --hosts 2`: the stock command asks, a guest mounts
its shares by virtiofs and leaves a line in each at every start, and after each step rules and
mounts are as the table of facts/shared_file_systems.md 7.2 says. On Ganesha and CephFS:
test_stored_moves_story.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path

import pytest

from mooring.lab.real_hosts import RealHosts
from tests.contract.clients import Cloud
from tests.hosts.conftest import require_guests
from tests.hosts.sharing import Sharing, is_confirmed, is_taken_back, moves, stays_on_its_host

pytestmark = pytest.mark.hosts


class Directories:
    """Implements `Storage`: directories of the first host, which that asks the rules of itself."""

    protocol, share_type = "NFS", ""

    def __init__(self, hosts: Path) -> None:
        self._hosts = hosts

    def clients(self, share: str) -> None:
        del share

    def users(self, share: str) -> None:
        del share

    def lines(self, share: str) -> list[str]:
        [found] = self._hosts.glob(f"*/shares/*{share}/lines")
        return found.read_text().split()


@pytest.fixture(scope="module")
def cloud(
    tmp_path_factory: pytest.TempPathFactory, several_hosts: None, guest_image: bytes
) -> Generator[Cloud]:
    """A cloud of two real hosts, the first of which has the shares, with a guest's image."""
    del several_hosts
    require_guests()
    directory = tmp_path_factory.mktemp("lab")
    (directory / "guest.qcow2").write_bytes(guest_image)
    try:
        cloud = Cloud(directory / "state", directory / "log", hosts=2, hypervisor="libvirt")
        try:
            file = ("--file", str(directory / "guest.qcow2"), "--disk-format", "qcow2")
            cloud.shell("demo").run("image", "create", "guest", *file)
            yield cloud
        finally:
            cloud.stop()
    finally:
        asyncio.run(RealHosts(directory / "state", ()).close(guests=True))


@pytest.fixture(scope="module")
def storage(cloud: Cloud) -> Directories:
    return Directories(cloud.state_dir / "hosts")


def test_cold_migrate_with_one_nfs_share_and_verify_after_confirm(
    cloud: Cloud, storage: Directories
) -> None:
    server = Sharing(cloud, storage)
    stays_on_its_host(server)
    moves(server)
    is_confirmed(server)
    assert server.lines() == [[server.id] * 2]
    server.delete()


def test_cold_migrate_and_revert_and_verify_on_the_original_host(
    cloud: Cloud, storage: Directories
) -> None:
    """Then move it for good: one file has every line."""
    server = Sharing(cloud, storage)
    stays_on_its_host(server)
    is_taken_back(server, moves(server))
    moves(server)
    is_confirmed(server)
    assert server.lines() == [[server.id] * 4]
    server.delete()


def test_cold_migrate_with_multiple_shares(cloud: Cloud, storage: Directories) -> None:
    server = Sharing(cloud, storage, 2)
    stays_on_its_host(server)
    moves(server)
    is_confirmed(server)
    assert server.lines() == [[server.id] * 2] * 2
    server.delete()
