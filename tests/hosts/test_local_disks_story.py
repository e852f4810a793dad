"""A real guest with its root disk on its host moves cold between real hosts, and that disk grows.

On that disk it leaves a marker when it is started first, and reads it whenever it is started again,
beside a swap disk as large as its flavor says; or it writes to it all the time.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.clients import COMPUTE
from tests.hosts.moving_cloud import HOSTS, MovingCloud
from tests.hosts.settler import RootWriter, Settler

pytestmark = pytest.mark.hosts


@pytest.fixture(scope="module")
def cloud(two_hosts: MovingCloud) -> MovingCloud:
    return two_hosts


def test_a_guest_finds_what_it_wrote_on_the_disk_of_each_host(
    cloud: MovingCloud, guest_image: bytes
) -> None:
    for name, size_gib, swap_mib in (("narrow", 1, 64), ("wide", 2, 96)):
        size = {"name": name, "id": name, "vcpus": 1, "ram": 128, "disk": size_gib}
        body = {"flavor": {**size, "swap": swap_mib}}
        assert cloud.admin.ask("POST", f"{COMPUTE}/flavors", body).status == 200
    settler = Settler(cloud, guest_image, flavorRef="narrow")
    settler.has_swap(64)
    first = settler.host
    settler.ends_in("VERIFY_RESIZE", "migrate")
    settler.guest.begin_anew()
    settler.finds_its_marker(1)
    settler.has_swap(64)
    second = settler.host
    assert {first, second} == {*HOSTS}
    settler.has_files_at(first, second)
    settler.ends_in("ACTIVE", "confirmResize")
    settler.has_files_at(second)
    settler.guest.forget()
    settler.ends_in("VERIFY_RESIZE", "resize", {"flavorRef": "wide"})
    settler.finds_its_marker(2)
    settler.has_swap(96)
    settler.guest.forget()
    settler.ends_in("ACTIVE", "revertResize")
    settler.finds_its_marker(1)
    settler.has_swap(64)
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


def test_a_guest_that_writes_to_its_disk_goes_on_where_it_was_resized_to_for_good(
    cloud: MovingCloud, writing_image: bytes, tmp_path: Path
) -> None:
    """With more memory, processors and disk; of the host that it left nothing has to do with it."""
    body = {"flavor": {"name": "large", "id": "large", "vcpus": 2, "ram": 256, "disk": 2}}
    assert cloud.admin.ask("POST", f"{COMPUTE}/flavors", body).status == 200
    writer = RootWriter(cloud, writing_image)
    first, said = writer.host, writer.writes_on()
    (second,) = {*HOSTS} - {first}
    service, operator = ("compute", "service", "set", first, "nova-compute"), cloud.operator()
    operator.run(*service, "--disable")
    writer.ends_in("VERIFY_RESIZE", "resize", {"flavorRef": "large"})
    operator.run(*service, "--enable")
    assert writer.host == second
    found = writer.finds(2)
    assert found >= said
    [process_id] = cloud.emulators(writer.guest.server_id)
    writer.ends_in("ACTIVE", "confirmResize")
    assert cloud.emulators(writer.guest.server_id) == [process_id]
    with cloud.domain(second, writer.guest.server_id) as domain:
        _, memory_kib, _, processors, _ = domain.info()
    assert (memory_kib // 1024, processors) == (256, 2)
    writer.has_files_at(second)
    writer.has_domain_at(second)
    cloud.settle()
    # It writes its last four blocks once more, so the first that it says may be what it found.
    counts = [writer.writes_on(), writer.writes_on()]
    assert counts[1] > max(counts[0], found)
    writer.ends_in("SHUTOFF", "os-stop")
    assert writer.read_disk(second, tmp_path) >= counts[1]
    cloud.delete(writer.guest.path)
    writer.has_files_at()
    writer.has_domain_at()
