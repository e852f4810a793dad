"""A real guest that leaves a marker on the root disk on its host, and reads it at each start."""

from __future__ import annotations

from typing import Any

from tests.contract.clients import COMPUTE
from tests.hosts.moving_cloud import HOSTS, MovingCloud
from tests.hosts.real_cloud import GIB, Guest
from tests.hosts.writer import HOST


class Settler:
    """The server, and what its user and its operator do to it."""

    def __init__(self, cloud: MovingCloud, image: bytes) -> None:
        self.cloud = cloud
        self.guest: Guest = cloud.boot("settler", imageRef=cloud.demo.image("own", image, "qcow2"))
        self.guest.hear(f"boot marker written {self.guest.server_id}")

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

    def finds_its_marker(self, size_gib: int) -> None:
        """See that the guest was started from its own disk, and how large that is."""
        self.guest.hear(f"disk vda {size_gib * GIB} bytes")
        self.guest.hear(f"boot marker read {self.guest.server_id}")

    def has_files_at(self, *hosts: str) -> None:
        """See which hosts have files of it."""
        state = self.cloud.state_dir / "hosts"
        there = [one for one in HOSTS if (state / one / "guests" / self.guest.server_id).exists()]
        assert there == sorted(hosts)
