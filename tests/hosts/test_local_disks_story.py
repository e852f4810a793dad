"""A real guest with its root disk on its host moves cold between real hosts, and that disk grows.

On that disk it leaves a marker when it is started first, and reads it whenever it is started again.
"""

from __future__ import annotations

import pytest

from tests.contract.clients import COMPUTE
from tests.hosts.moving_cloud import HOSTS, MovingCloud
from tests.hosts.settler import Settler

pytestmark = pytest.mark.hosts


@pytest.fixture(scope="module")
def cloud(two_hosts: MovingCloud) -> MovingCloud:
    return two_hosts


def test_a_guest_finds_what_it_wrote_on_the_disk_of_each_host(
    cloud: MovingCloud, guest_image: bytes
) -> None:
    body = {"flavor": {"name": "wide", "id": "wide", "vcpus": 1, "ram": 128, "disk": 2}}
    assert cloud.admin.ask("POST", f"{COMPUTE}/flavors", body).status == 200
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
