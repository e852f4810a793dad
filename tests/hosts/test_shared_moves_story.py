"""The end-to-end tests of specs 003: servers with shares move cold between two real hosts.

The whole cloud takes part, made by `mooring up --hosts 2`: the stock command asks, a guest mounts
its shares by virtiofs and leaves a line in each at every start, and after each step rules and
mounts are as the table of facts/shared_file_systems.md 7.2 says.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from mooring.agent.mounts import read_mount_points
from mooring.lab.real_hosts import RealHosts
from mooring.lab.residents import SHARES
from tests.contract.clients import COMPUTE, ENDS_S, POLL_S, SHARE, Cloud
from tests.contract.test_moves_cli import HOST
from tests.hosts.conftest import require_guests

pytestmark = pytest.mark.hosts
NEW = ("--os-compute-api-version", "2.106")
TAGS = ("papers", "plans")
"""Those that the test guest knows."""
_MANILA = {"X-OpenStack-Manila-API-Version": "2.82"}


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


class Sharing:
    """A server that boots from a volume and has shares, which its guest writes to."""

    def __init__(self, cloud: Cloud, count: int) -> None:
        self._cloud, self._user = cloud, cloud.http("demo")
        self._operator, self._demo = cloud.shell("mooring"), cloud.shell("demo")
        root = (
            "--image",
            "guest",
            "--boot-from-volume",
            "1",
            "--flavor",
            "m1.nano",
            "--no-network",
        )
        self.id: str = self._demo.ask("server", "create", "sharing", *root, "--wait")["id"]
        self.hears("mooring-guest: up")
        self._ends_in("SHUTOFF", "server", "stop", self.id)
        self.shares = [self._give(tag) for tag in TAGS[:count]]
        self._ends_in("ACTIVE", "server", "start", self.id)
        self.starts = 1
        self.wrote()

    @property
    def host(self) -> str:
        """Where it is."""
        return self._operator.ask("server", "show", self.id)[HOST]

    def migrate(self) -> str:
        """Send it to the other host; return the one that it left."""
        source = self.host
        self._ends_in("VERIFY_RESIZE", *NEW, "server", "migrate", self.id, operator=True)
        assert self.host != source
        self.starts += 1
        return source

    def confirm(self) -> None:
        """Let it stay."""
        self._ends_in("ACTIVE", "server", "resize", "confirm", self.id)

    def revert(self) -> None:
        """Take it back."""
        self._ends_in("ACTIVE", "server", "resize", "revert", self.id)
        self.starts += 1

    def wrote(self) -> None:
        """See that the guest has left a line in each share, besides all those before it."""
        for tag in TAGS[: len(self.shares)]:
            self.hears(f"share {tag} has {self.starts} lines")

    def has(self, *hosts: str) -> None:
        """See that these hosts, and no others, are let in to each share and have it mounted."""
        addresses = {self._address(host) for host in hosts}
        for share in self.shares:
            path = f"{SHARE}/share-access-rules?share_id={share}"
            answer = self._cloud.http("admin").ask("GET", path, headers=_MANILA)
            assert {one["access_to"] for one in answer.key("access_list")} == addresses
        for place in (self._cloud.state_dir / "hosts").iterdir():
            mounted = self._mounted(place)
            assert len(mounted) == (len(self.shares) if place.name in hosts else 0), mounted

    def lines(self) -> list[list[str]]:
        """What each share holds: the server's id, once for each start of its guest."""
        found = (self._cloud.state_dir / "hosts").rglob("lines")
        return [path.read_text().split() for path in found]

    def hears(self, words: str) -> None:
        """Wait until the guest says something."""
        deadline = time.monotonic() + ENDS_S
        while words not in (said := self._demo.run("console", "log", "show", self.id)):
            assert time.monotonic() < deadline, said
            time.sleep(POLL_S)

    def delete(self) -> None:
        """Delete it, and see that no host has to do with its shares any more."""
        self._user.delete_server(self.id)
        self.has()
        for share in self.shares:
            self._demo.run("share", "delete", share, "--wait")

    def _give(self, tag: str) -> str:
        share = self._demo.ask("share", "create", "NFS", "1", "--wait")["id"]
        body = {"share": {"share_id": share, "tag": tag}}
        path = f"{COMPUTE}/servers/{self.id}/shares"
        assert self._user.ask("POST", path, body, version="2.97").status == 201
        self._user.until(
            f"{path}/{share}",
            lambda got: got.key("share")["status"] == "inactive",
            version="2.97",
        )
        return share

    def _ends_in(self, status: str, *words: str, operator: bool = False) -> None:
        (self._operator if operator else self._demo).run(*words)
        self._user.until_server(self.id, status)

    def _address(self, host: str) -> str:
        path = f"{COMPUTE}/os-hypervisors/detail"
        listed: list[dict[str, Any]] = self._cloud.http("admin").ask("GET", path).key("hypervisors")
        names = sorted(one["hypervisor_hostname"] for one in listed)
        return f"10.77.0.{names.index(host) + 1}"

    def _mounted(self, place: Path) -> set[str]:
        """Return what a host has mounted for guests, as its daemon sees it."""
        pid = (place / "libvirtd.pid").read_text("ascii").strip()
        points = read_mount_points(Path(f"/proc/{pid}/mountinfo"))
        return {str(point) for point in points if f"/{SHARES}/nfs/" in str(point)}


def test_cold_migrate_with_one_nfs_share_and_verify_after_confirm(cloud: Cloud) -> None:
    server = Sharing(cloud, 1)
    server.has(server.host)
    source = server.migrate()
    server.wrote()
    server.has(source, server.host)
    server.confirm()
    server.has(server.host)
    assert server.lines() == [[server.id] * 2]
    server.delete()


def test_cold_migrate_and_revert_and_verify_on_the_original_host(cloud: Cloud) -> None:
    """Then move it for good: one file has every line."""
    server = Sharing(cloud, 1)
    source = server.migrate()
    server.wrote()
    server.revert()
    assert server.host == source
    server.wrote()
    server.has(source)
    server.migrate()
    server.wrote()
    server.has(source, server.host)
    server.confirm()
    server.has(server.host)
    assert server.lines() == [[server.id] * 4]
    server.delete()


def test_cold_migrate_with_multiple_shares(cloud: Cloud) -> None:
    server = Sharing(cloud, 2)
    source = server.migrate()
    server.wrote()
    server.has(source, server.host)
    server.confirm()
    server.has(server.host)
    assert server.lines() == [[server.id] * 2] * 2
    server.delete()
