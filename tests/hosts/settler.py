"""Real guests with the root disk on their host: one leaves a marker on it, another writes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mooring.agent.guest_files import ROOT, ROOT_FORMAT
from tests.contract.clients import COMPUTE, MIB
from tests.hosts.moving_cloud import HOSTS, MovingCloud
from tests.hosts.real_cloud import GIB, Guest
from tests.hosts.writer import HOST
from tests.hosts.written import ROOT_FIRST, read_written


class Inhabitant:
    """The server, and what its user and its operator do to it."""

    def __init__(self, cloud: MovingCloud, image: bytes, image_format: str, **wanted: Any) -> None:
        self.cloud = cloud
        image_id = cloud.demo.image("own", image, image_format)
        self.guest: Guest = cloud.boot("settler", imageRef=image_id, **wanted)

    @property
    def host(self) -> str:
        """Where it is."""
        shown = self.cloud.admin.ask("GET", f"{COMPUTE}/servers/{self.guest.server_id}")
        return shown.key("server")[HOST]

    def ends_in(self, status: str, action: str, value: Any = None) -> None:
        """Ask for an action, and wait for its end."""
        path = f"{COMPUTE}/servers/{self.guest.server_id}/action"
        answer = self.cloud.admin.ask("POST", path, {action: value}, version="2.90")
        assert answer.status in {202, 204}
        self.guest.until(status)

    def has_files_at(self, *hosts: str) -> None:
        """See which hosts have files of it."""
        state = self.cloud.state_dir / "hosts"
        there = [one for one in HOSTS if (state / one / "guests" / self.guest.server_id).exists()]
        assert there == sorted(hosts)

    def has_domain_at(self, *hosts: str) -> None:
        """See which hosts' daemons know it, running or not."""
        name, there = f"mooring-{self.guest.server_id}", list[str]()
        for host in HOSTS:
            with self.cloud.daemon(host) as daemon:
                there += [host for one in daemon.listAllDomains() if one.name() == name]
        assert there == sorted(hosts)


class Settler(Inhabitant):
    """One whose guest leaves a marker when it is started first, and reads it at each start."""

    def __init__(self, cloud: MovingCloud, image: bytes, **wanted: Any) -> None:
        super().__init__(cloud, image, "qcow2", **wanted)
        self.guest.hear(f"boot marker written {self.guest.server_id}")

    def finds_its_marker(self, size_gib: int) -> None:
        """See that the guest was started from its own disk, and how large that is."""
        self.guest.hear(f"disk vda {size_gib * GIB} bytes")
        self.guest.hear(f"boot marker read {self.guest.server_id}")

    def has_swap(self, size_mib: int) -> None:
        """See that the guest found a swap disk of this size behind its root disk."""
        self.guest.hear(f"disk vdb {size_mib * MIB} bytes")


class RootWriter(Inhabitant):
    """One whose guest writes to its root disk all the time; its blocks are counted from 1."""

    def __init__(self, cloud: MovingCloud, image: bytes) -> None:
        super().__init__(cloud, image, "raw")
        self.writes_on()

    def writes_on(self) -> int:
        """Wait until the guest has written once more; return how many blocks it says it wrote."""
        self.guest.forget()
        return int(self.guest.hear(r"vda writer has written (\d+)")[1]) - ROOT_FIRST

    def finds(self, size_gib: int) -> int:
        """Wait until a guest that was started anew has looked at its disk of this size.

        Returns how many blocks were there, up to the first gap.
        """
        self.guest.begin_anew()
        self.guest.hear(f"disk vda {size_gib * GIB} bytes")
        return int(self.guest.hear(r"vda writer begins and finds (\d+) blocks")[1])

    def read_disk(self, host: str, work: Path) -> int:
        """Check each block of the disk of the guest, which is off; return how many it wrote."""
        root = self.cloud.state_dir / "hosts" / host / "guests" / self.guest.server_id / ROOT
        return read_written(root, ROOT_FORMAT, GIB, work, first=ROOT_FIRST).before
