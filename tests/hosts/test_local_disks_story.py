"""A real guest with its root disk on its host moves cold between real hosts, and that disk grows.

On that disk it leaves a marker when it is started first, and reads it whenever it is started again.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.clients import COMPUTE
from tests.hosts.moving_cloud import HOSTS, MovingCloud
from tests.hosts.real_cloud import GIB, Guest
from tests.hosts.writer import HOST

pytestmark = pytest.mark.hosts


@pytest.fixture(scope="module")
def cloud(two_hosts: MovingCloud) -> MovingCloud:
    return two_hosts


class Settler:
    """The server, and what its user and its operator do to it."""

    def __init__(self, cloud: MovingCloud, image: bytes) -> None:
        self.cloud = cloud
        body = {"flavor": {"name": "wide", "id": "wide", "vcpus": 1, "ram": 128, "disk": 2}}
        assert cloud.admin.ask("POST", f"{COMPUTE}/flavors", body).status == 200
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


def test_a_guest_finds_what_it_wrote_on_the_disk_of_each_host(
    cloud: MovingCloud, guest_image: bytes
) -> None:
    settler = Settler(cloud, guest_image)
    first = settler.host
    settler.ends_in("VERIFY_RESIZE", "migrate")
    settler.guest.begin_anew()
    settler.finds_its_marker(1)
    second = settler.host
    assert {first, second} == {*HOSTS}
    settler.has_files_at(first, second)
    settler.ends_in("ACTIVE", "confirmResize")
    settler.has_files_at(second)
    settler.guest.forget()
    settler.ends_in("VERIFY_RESIZE", "resize", {"flavorRef": "wide"})
    settler.finds_its_marker(2)
    settler.guest.forget()
    settler.ends_in("ACTIVE", "revertResize")
    settler.finds_its_marker(1)
    assert settler.host == second
    settler.ends_in("VERIFY_RESIZE", "migrate")
    settler.guest.begin_anew()
    settler.ends_in("ACTIVE", "revertResize")
    settler.guest.begin_anew()
    settler.finds_its_marker(1)
    settler.has_files_at(second)
    cloud.settle()
    cloud.delete(settler.guest.path)
    assert cloud.emulators(settler.guest.server_id) == []
    settler.has_files_at()
