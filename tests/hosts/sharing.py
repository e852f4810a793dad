"""A server whose guest writes to its shares, and who is let in to them and has them mounted.

Who is let in is asked of the share service and of the storage itself, what is mounted of each
host's own table of mounts. What is done to the server is asked for by the stock command.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from mooring.agent.mounts import read_mount_points
from mooring.lab.residents import SHARES
from tests.contract.clients import COMPUTE, ENDS_S, POLL_S, SHARE, Http, Shell
from tests.contract.test_moves_cli import HOST

NEW = ("--os-compute-api-version", "2.106")
TAGS = ("papers", "plans")
"""Those that the test guest knows."""
_MANILA = {"X-OpenStack-Manila-API-Version": "2.82"}


class AnyCloud(Protocol):
    """A cloud whose hosts are real ones of a lab."""

    state_dir: Path

    def shell(self, user: str) -> Shell:
        """The stock command, as one of the users."""
        ...

    def http(self, user: str) -> Http:
        """Requests of any shape, as one of them."""
        ...


class Storage(Protocol):
    """Where shares are, asked without the cloud."""

    protocol: str
    share_type: str

    def clients(self, share: str) -> set[str] | None:
        """Return whom it lets in to a share, as rules name them; None where no server does."""
        ...

    def users(self, share: str) -> set[str] | None:
        """Return the addresses that have a share mounted; None where the storage does not know."""
        ...

    def lines(self, share: str) -> list[str]:
        """Return what guests have written to a share."""
        ...


class Sharing:
    """A server that boots from a volume and has shares, which its guest writes to.

    Its first shares are those given, in the order of the tags; `count` is how many it gets in all.
    """

    def __init__(
        self, cloud: AnyCloud, storage: Storage, count: int = 1, shares: Sequence[str] = ()
    ) -> None:
        self._cloud, self._storage = cloud, storage
        self._operator, self._demo = cloud.shell("mooring"), cloud.shell("demo")
        root = ("--image", "guest", "--boot-from-volume", "1", "--flavor", "m1.nano")
        words = ("server", "create", "sharing", *root, "--no-network", "--wait")
        self.id: str = self._demo.ask(*words)["id"]
        self.path = f"{COMPUTE}/servers/{self.id}"
        self.hears("mooring-guest: up")
        self.stop()
        made = [self._make() for _ in TAGS[len(shares) : count]]
        self.shares = [*shares, *made]
        for tag, share in zip(TAGS, self.shares, strict=False):
            self._give(share, tag)
        self.starts = 0

    @property
    def host(self) -> str:
        """Where it is."""
        return self._cloud.http("admin").ask("GET", self.path).key("server")[HOST]

    def start(self) -> None:
        """Let its guest run."""
        self._ends_in("ACTIVE", "server", "start", self.id)
        self.starts += 1

    def stop(self) -> None:
        """Let its guest end."""
        self._ends_in("SHUTOFF", "server", "stop", self.id)

    def reboot(self) -> None:
        """Let its guest begin anew where it is."""
        self._ends_in("ACTIVE", "server", "reboot", "--hard", self.id)
        self.starts += 1

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

    def ends_in(self, status: str) -> None:
        """Wait until it has a status, and nothing is done to it."""
        self._cloud.http("demo").until_server(self.id, status)

    def wrote(self, others: int = 0) -> None:
        """See that the guest has left a line in each share, besides all those before it.

        `others` is how many lines other servers' guests have left there.
        """
        for tag, _ in zip(TAGS, self.shares, strict=False):
            self.hears(f"share {tag} has {self.starts + others} lines")

    def has(self, *hosts: str, mounted: bool = True) -> None:
        """See that these hosts, and no others, are let in to each share and have it mounted.

        They are let in alone where it is not to be mounted.
        """
        clients = self._clients(hosts)
        using = set(hosts) if mounted else set[str]()
        for share in self.shares:
            assert self._rules(share) == clients
            assert self._storage.clients(share) in (clients, None)
            assert self._storage.users(share) in ({self._address(one) for one in using}, None)
        for place in (self._cloud.state_dir / "hosts").iterdir():
            found = self._mounted(place)
            assert len(found) == (len(self.shares) if place.name in using else 0), found

    def lines(self) -> list[list[str]]:
        """What each share holds: the server's id, once for each start of its guest."""
        return [self._storage.lines(share) for share in self.shares]

    def folder(self) -> Path:
        """Where its host has its only share, by the very mount that its guest has."""
        place = self._cloud.state_dir / "hosts" / self.host
        [found] = self._mounted(place)
        return _daemon(place) / "root" / found.relative_to("/")

    def hears(self, words: str) -> None:
        """Wait until the guest says something."""
        deadline = time.monotonic() + ENDS_S
        while words not in (said := self._said()):
            assert time.monotonic() < deadline, said
            time.sleep(POLL_S)

    def delete(self) -> None:
        """Delete it, and see that no host has to do with its shares any more; delete them too."""
        self.go()
        self.has()
        for share in self.shares:
            self._demo.run("share", "delete", share, "--wait")

    def go(self) -> None:
        """Delete it, and not its shares."""
        self._cloud.http("demo").delete_server(self.id)

    def _said(self) -> str:
        body: dict[str, Any] = {"os-getConsoleOutput": {}}
        answer = self._cloud.http("demo").ask("POST", f"{self.path}/action", body)
        return answer.key("output")

    def _make(self) -> str:
        kind = ("--share-type", self._storage.share_type) if self._storage.share_type else ()
        words = ("share", "create", self._storage.protocol, "1", *kind, "--wait")
        return self._demo.ask(*words)["id"]

    def _give(self, share: str, tag: str) -> None:
        words = ("server", "add", "share", self.id, share, "--tag", tag)
        self._demo.run("--os-compute-api-version", "2.97", *words)
        self._cloud.http("demo").until(
            f"{self.path}/shares/{share}",
            lambda got: got.key("share")["status"] == "inactive",
            version="2.97",
        )

    def _ends_in(self, status: str, *words: str, operator: bool = False) -> None:
        (self._operator if operator else self._demo).run(*words)
        self.ends_in(status)

    def _clients(self, hosts: Sequence[str]) -> set[str]:
        """Return whom rules are to name: each host, or for all of them the project's one id."""
        if self._storage.protocol == "NFS" or not hosts:
            return {self._address(host) for host in hosts}
        project = self._cloud.http("demo").ask("GET", self.path).key("server")["tenant_id"]
        return {f"mooring-{project}"}

    def _rules(self, share: str) -> set[str]:
        path = f"{SHARE}/share-access-rules?share_id={share}"
        answer = self._cloud.http("admin").ask("GET", path, headers=_MANILA)
        return {one["access_to"] for one in answer.key("access_list")}

    def _address(self, host: str) -> str:
        path = f"{COMPUTE}/os-hypervisors/detail"
        listed: list[dict[str, Any]] = self._cloud.http("admin").ask("GET", path).key("hypervisors")
        names = sorted(one["hypervisor_hostname"] for one in listed)
        return f"10.77.0.{names.index(host) + 1}"

    def _mounted(self, place: Path) -> set[Path]:
        """Return what a host has mounted for guests, as its daemon sees it: each mount once.

        The daemon's own mounts show the host's directory for what runs at two places.
        """
        base = f"/{SHARES}/{self._storage.protocol.lower()}/"
        points = read_mount_points(_daemon(place) / "mountinfo")
        by_name = {point.name: point for point in points if base in str(point)}
        return set(by_name.values())


def _daemon(place: Path) -> Path:
    """Return what the kernel tells of a host's daemon, which is among the host's mounts."""
    return Path("/proc") / (place / "libvirtd.pid").read_text("ascii").strip()


def stays_on_its_host(server: Sharing) -> None:
    """A server's guest writes, its host is let in and has its shares mounted, and no other."""
    server.start()
    server.wrote()
    server.has(server.host)


def moves(server: Sharing) -> str:
    """Both hosts are let in and have the shares mounted; return the one that was left."""
    source = server.migrate()
    server.wrote()
    server.has(source, server.host)
    return source


def is_taken_back(server: Sharing, source: str) -> None:
    """The host that was left is as it was, and the other one has nothing of it."""
    server.revert()
    assert server.host == source
    server.wrote()
    server.has(source)


def is_confirmed(server: Sharing) -> None:
    """The host that was left has nothing of it any more."""
    server.confirm()
    server.has(server.host)
