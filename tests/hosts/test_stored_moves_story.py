"""Servers with shares move cold between two real hosts, with the shares in a Ceph or at a Ganesha.

The whole cloud takes part, with the stock command and the configuration of docs/shares.md. After
each step rules and mounts are as the table of facts/shared_file_systems.md 7.2 says, by what the
storage itself tells: whom it lets in, and who has the share mounted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

import pytest
from msgspec import Struct

from mooring.lab.real_hosts import RealHosts
from tests.hosts.conftest import require_guests
from tests.hosts.sharing import Sharing, is_confirmed, is_taken_back, moves, stays_on_its_host
from tests.hosts.stored_cloud import HOSTS, KEEPER, StoredCloud, stored_cloud
from tests.hosts.stores import CephStore, GaneshaStore, open_ceph, open_ganesha
from tests.sampling import choose

pytestmark = pytest.mark.hosts
STORES = {"ceph": open_ceph, "ganesha": open_ganesha}
COLD, CONFIRM, REVERT = "compute.cold_migrate", "compute.confirm_resize", "compute.revert_resize"
WORDS = {COLD: "migrate", CONFIRM: "confirmResize", REVERT: "revertResize"}
POINTS = (
    f"{COLD}/grant_there/forward/after",
    f"{COLD}/mount_there/forward/after",
    f"{COLD}/start_there/forward/after",
    f"{CONFIRM}/unmount_left/forward/after",
    f"{CONFIRM}/revoke_left/forward/after",
    f"{REVERT}/unmount_left/forward/after",
    f"{REVERT}/mount_back/forward/after",
)


class Stored(Struct, frozen=True):
    """A cloud and its storage."""

    cloud: StoredCloud
    store: CephStore | GaneshaStore


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Take one of the storages, which the commit chooses, or each."""
    names = choose(metafunc.config, __name__, list(STORES), 1)
    metafunc.parametrize("stored", names, indirect=True, scope="module")


@pytest.fixture(scope="module")
def stored(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    several_hosts: None,
    guest_image: bytes,
) -> Generator[Stored]:
    """Two hosts, and a place for the storage, on one network."""
    del several_hosts
    if not request.config.getoption("--every"):
        pytest.skip("it takes minutes, and make guests runs it")
    require_guests()
    directory = tmp_path_factory.mktemp("cloud")
    lab = RealHosts(directory / "state", (*HOSTS, KEEPER))
    with ExitStack() as stack:
        stack.callback(lambda: asyncio.run(lab.close(guests=True)))
        asyncio.run(lab.open())
        *clients, place = (host.namespace for host in lab.hosts)
        store = stack.enter_context(STORES[request.param](place, clients))
        cloud = stack.enter_context(stored_cloud(directory, lab, store, guest_image))
        yield Stored(cloud, store)


def test_one_file_has_every_line_of_a_guest_that_moves_and_is_taken_back_and_moves(
    stored: Stored,
) -> None:
    server = Sharing(stored.cloud, stored.store)
    server.has(server.host, mounted=False)
    stays_on_its_host(server)
    is_taken_back(server, moves(server))
    moves(server)
    is_confirmed(server)
    assert server.lines() == [[server.id] * 4]
    server.stop()
    server.has(server.host, mounted=False)
    server.delete()
    stored.cloud.settle()


def test_a_server_beside_one_that_moves_keeps_the_share_that_both_have(stored: Stored) -> None:
    """One rule and one mount of the host are for both servers; of CephFS the rule is for all."""
    cloud, store = stored.cloud, stored.store
    moving = Sharing(cloud, store)
    stays_on_its_host(moving)
    with only(cloud, moving.host):
        staying = Sharing(cloud, store, shares=moving.shares)
    staying.start()
    staying.wrote(others=1)
    staying.has(moving.host)
    source = moving.migrate()
    moving.wrote(others=1)
    moving.has(source, moving.host)
    moving.confirm()
    staying.has(source, moving.host)
    # Through the client that its guest has had all the time.
    (staying.folder() / "more").write_text(staying.id)
    staying.reboot()
    staying.wrote(others=2)
    assert staying.lines() == [[moving.id, staying.id, moving.id, staying.id]]
    moving.go()
    staying.has(source)
    staying.delete()
    cloud.settle()


@pytest.mark.cases(POINTS, 1)
def test_a_move_ends_whose_control_plane_is_killed_in_it(stored: Stored, case: str) -> None:
    server = Sharing(stored.cloud, stored.store)
    stays_on_its_host(server)
    source = server.host
    saga = case.partition("/")[0]
    if saga != COLD:
        moves(server)
    stored.cloud.killed_in(case, lambda: stored.cloud.acts(server.path, WORDS[saga]))
    stored.cloud.start()
    server.ends_in("VERIFY_RESIZE" if saga == COLD else "ACTIVE")
    stored.cloud.settle()
    if saga == COLD:
        assert server.host != source
        server.has(source, server.host)
        server.confirm()
    assert (server.host == source) == (saga == REVERT)
    server.has(server.host)
    server.starts += saga != CONFIRM
    server.wrote()
    assert server.lines() == [[server.id] * server.starts]
    server.delete()
    stored.cloud.settle()


@contextmanager
def only(cloud: StoredCloud, host: str) -> Generator[None]:
    """New servers come to one host alone meanwhile."""
    [other] = set(HOSTS) - {host}
    words = ("compute", "service", "set", other, "nova-compute")
    cloud.shell("mooring").run(*words, "--disable")
    try:
        yield
    finally:
        cloud.shell("mooring").run(*words, "--enable")
