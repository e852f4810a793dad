"""A real guest that writes all the time is put away, and comes back on another host."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.clients import VOLUME
from tests.hosts.moving_cloud import HOSTS, MovingCloud
from tests.hosts.real_cloud import GIB
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


def test_a_guest_that_was_put_away_goes_on_elsewhere_with_what_it_had_written(
    cloud: MovingCloud, guest_image: bytes, tmp_path: Path
) -> None:
    writer, operator = Writer(cloud, guest_image), cloud.operator()
    writer.counts.append(writer.writes_on())
    for host in HOSTS:
        operator.run("server", "shelve", writer.server_id)
        writer.guest.until(AWAY)
        assert cloud.emulators(writer.server_id) == []
        shown = cloud.admin.ask("GET", f"{VOLUME}/volumes/{writer.volume_id}").key("volume")
        assert shown["status"] == "reserved"
        at_rest = read_written(writer.image, "qcow2", GIB, tmp_path).before
        assert at_rest >= writer.counts[-1]
        operator.run(*VERSION, "server", "unshelve", "--host", host, writer.server_id)
        writer.guest.until("ACTIVE")
        assert writer.host == host
        assert len(cloud.emulators(writer.server_id)) == 1
        assert writer.finds() >= at_rest
        writer.counts.append(writer.writes_on())
    assert writer.counts == sorted(writer.counts)
    cloud.settle()
    cloud.delete(writer.guest.path)
    assert cloud.emulators(writer.server_id) == []
    cloud.delete(f"{VOLUME}/volumes/{writer.volume_id}")
    cloud.settle()
