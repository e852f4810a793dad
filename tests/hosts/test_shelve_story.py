"""Real guests are put away, and come back on another host with what they had written.

One writes to a volume all the time; the other one has its root disk on its host.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.clients import VOLUME
from tests.hosts.moving_cloud import HOSTS, Ledger, MovingCloud
from tests.hosts.real_cloud import GIB
from tests.hosts.settler import Settler
from tests.hosts.writer import Writer
from tests.hosts.written import read_written

pytestmark = pytest.mark.hosts
AWAY, VERSION = "SHELVED_OFFLOADED", ("--os-compute-api-version", "2.91")


@pytest.fixture
def cloud(request: pytest.FixtureRequest) -> MovingCloud:
    """Two real hosts, which are not made where the test is not run."""
    if not request.config.getoption("--every"):
        pytest.skip("it takes a minute, and make guests runs it")
    return request.getfixturevalue("two_hosts")


def goes_and_comes_back(cloud: MovingCloud, writer: Writer, host: str, work: Path) -> None:
    """Put the writer away, and bring it back at a host; `work` takes a copy of its volume."""
    operator = cloud.operator()
    operator.run("server", "shelve", writer.server_id)
    writer.guest.until(AWAY)
    assert cloud.emulators(writer.server_id) == []
    shown = cloud.admin.ask("GET", f"{VOLUME}/volumes/{writer.volume_id}").key("volume")
    assert shown["status"] == "reserved"
    at_rest = read_written(writer.image, "qcow2", GIB, work).before
    assert at_rest >= writer.counts[-1]
    operator.run(*VERSION, "server", "unshelve", "--host", host, writer.server_id)
    writer.guest.until("ACTIVE")
    assert writer.host == host
    assert len(cloud.emulators(writer.server_id)) == 1
    assert writer.finds() >= at_rest
    writer.counts.append(writer.writes_on())


def test_a_guest_that_was_put_away_goes_on_elsewhere_with_what_it_had_written(
    cloud: MovingCloud, guest_image: bytes, tmp_path: Path
) -> None:
    writer = Writer(cloud, guest_image)
    ledger = Ledger(cloud, writer.server_id, writer.image)
    ledger.start()
    try:
        writer.counts.append(writer.writes_on())
        for host in HOSTS:
            goes_and_comes_back(cloud, writer, host, tmp_path)
    finally:
        ledger.end()
    assert ledger.doubles == []
    assert len(ledger.writers) == 1 + len(HOSTS)
    assert writer.counts == sorted(writer.counts)
    cloud.settle()
    cloud.delete(writer.guest.path)
    assert cloud.emulators(writer.server_id) == []
    cloud.delete(f"{VOLUME}/volumes/{writer.volume_id}")
    cloud.settle()


def test_a_root_disk_comes_back_on_another_host_and_moves_on_from_there(
    cloud: MovingCloud, guest_image: bytes
) -> None:
    settler, operator = Settler(cloud, guest_image), cloud.operator()
    server_id, first = settler.guest.server_id, settler.host
    (second,) = {*HOSTS} - {first}
    settler.ends_in(AWAY, "shelve")
    settler.has_files_at()
    assert cloud.emulators(server_id) == []
    operator.run(*VERSION, "server", "unshelve", "--host", second, server_id)
    settler.guest.until("ACTIVE")
    settler.guest.begin_anew()
    settler.finds_its_marker(1)
    settler.has_files_at(second)
    images = cloud.demo.ask("GET", "/image/v2/images").key("images")
    assert "settler-shelved" not in {image["name"] for image in images}
    moving = ("server", "migrate", "--live-migration", "--block-migration", "--wait")
    assert "Complete" in operator.run(*moving, server_id)
    settler.has_files_at(first)
    settler.ends_in("VERIFY_RESIZE", "migrate")
    settler.guest.begin_anew()
    settler.finds_its_marker(1)
    assert settler.host == second
    settler.ends_in("ACTIVE", "confirmResize")
    settler.has_files_at(second)
    cloud.settle()
    cloud.delete(settler.guest.path)
    assert cloud.emulators(server_id) == []
    settler.has_files_at()
