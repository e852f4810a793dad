"""A volume of two servers, one of which leaves its host: the other one keeps it throughout.

Source: specs 001, "multi_attach".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mooring.compute.hosts.loops import watch_hosts
from mooring.compute.volumes import devices
from tests.compute.cloud import ComputeCloud
from tests.compute.moving import Moving, server_that_moves, writers
from tests.compute.verifying import ask, force_down, migrate

pytestmark = pytest.mark.anyio
HOSTS = ("host1", "host2", "host3")


async def confirmed(goes: Moving) -> None:
    await migrate(goes)
    assert await ask(goes, "confirmResize") == 204


async def reverted(goes: Moving) -> None:
    await migrate(goes)
    assert await ask(goes, "revertResize") == 202


async def shelved(goes: Moving) -> None:
    assert await ask(goes, "shelve") == 202
    assert (await goes.cloud.server(goes.server_id))["status"] == "SHELVED_OFFLOADED"
    assert (
        await ask(goes, "unshelve", {"host": goes.destination}, user="admin", version="2.91") == 202
    )


async def evacuated(goes: Moving) -> None:
    """Move it from a host that is dead, and let that come back."""
    goes.cloud.hypervisor(goes.source).crash(goes.server_id)
    await force_down(goes.cloud, goes.source, down=True)
    value = {"host": goes.destination}
    assert await ask(goes, "evacuate", value, user="admin", version="2.94") == 200
    for _ in range(2):
        await watch_hosts.look_once(goes.cloud.compute)
        await goes.cloud.settle()
    await force_down(goes.cloud, goes.source, down=False)


async def went_live(goes: Moving) -> None:
    await goes.move(host=goes.destination)


async def resized(goes: Moving) -> None:
    assert await ask(goes, "resize", {"flavorRef": "2"}) == 202
    assert await ask(goes, "confirmResize") == 204


MOVES: dict[str, tuple[Callable[[Moving], Awaitable[None]], bool]] = {
    "live": (went_live, True),
    "resized": (resized, True),
    "cold, confirmed": (confirmed, True),
    "cold, reverted": (reverted, True),
    "shelved and unshelved": (shelved, True),
    "evacuated": (evacuated, False),
}
"""Each with whether both servers begin on one host: then it has to keep the connection."""


@pytest.mark.parametrize(
    ("how", "is_read_only"),
    [(how, is_read_only) for how in MOVES for is_read_only in (False, True)],
)
async def test_it_stays_with_the_server_that_stays_and_comes_with_the_one_that_goes(
    tmp_path: Path, how: str, *, is_read_only: bool
) -> None:
    move, together = MOVES[how]
    async with ComputeCloud(tmp_path, hosts=HOSTS) as cloud:
        shared = await cloud.make_shared_volume()
        if is_read_only:
            flag = {"os-update_readonly_flag": {"readonly": True}}
            await cloud.volume_api("POST", f"/volumes/{shared}/action", flag)
        stays, goes = [await server_that_moves(cloud, volumes=1) for _ in range(2)]
        await _place(goes, stays.source, together=together)
        for one in (stays, goes):
            assert (await cloud.attach(one.server_id, shared, version="2.60")).status == 200
            await cloud.settle()
        await move(goes)
        now = await goes.host()
        # A resize names no host.
        assert how == "resized" or (now == goes.source) is (how == "cold, reverted")
        for one, host in ((stays, stays.source), (goes, now)):
            assert (await cloud.server(one.server_id))["status"] == "ACTIVE"
            guest = await cloud.known_agents[host].show_server(one.server_id)
            assert guest is not None
            modes = {disk.volume_id: disk.read_only for disk in guest.disks}
            assert modes == {one.volumes[0]: False, shared: is_read_only}
            assert shared in await cloud.connections(host)
        assert await writers(cloud, shared) == sorted([stays.source, now])
        shown = await cloud.volume_api("GET", f"/volumes/{shared}")
        attached = {(one["server_id"], one["host_name"]) for one in shown["volume"]["attachments"]}
        # Whose hosts are told to administrators alone.
        assert {server_id for server_id, _ in attached} == {stays.server_id, goes.server_id}
        assert len(shown["volume"]["attachments"]) == len(HOSTS) - 1
        assert await cloud.complaints() == []


async def _place(goes: Moving, host: str, *, together: bool) -> None:
    """Bring the server to the host, or away from it, and say where it goes from there."""
    if (goes.source == host) is not together:
        other = host if together else next(name for name in HOSTS if name != host)
        assert await goes.migrate(host=other) == 202
        await goes.cloud.settle()
        goes.source = await goes.host()
    goes.destination = next(name for name in HOSTS if name not in {goes.source, host})


LACKS = frozenset({devices.SHARING})


async def _alone(cloud: ComputeCloud) -> Moving:
    """Return a server with a volume for several; its destination cannot share any."""
    goes = await server_that_moves(cloud, volumes=1)
    shared = await cloud.make_shared_volume()
    assert (await cloud.attach(goes.server_id, shared, version="2.60")).status == 200
    await cloud.settle()
    await cloud.change_host(goes.destination, hidden_traits=LACKS)
    await cloud.look_at_hosts()
    return goes


async def cold(goes: Moving) -> None:
    await migrate(goes)


async def live(goes: Moving) -> None:
    await goes.move()


@pytest.mark.parametrize("how", [cold, live])
async def test_no_server_with_it_goes_to_a_host_that_cannot_share_volumes(
    tmp_path: Path, database: str, how: Callable[[Moving], Awaitable[None]]
) -> None:
    async with ComputeCloud(tmp_path, hosts=HOSTS[:2], database=database) as cloud:
        goes = await _alone(cloud)
        await how(goes)
        assert (await goes.status(), await goes.host()) == ("error", goes.source)
        assert (await cloud.server(goes.server_id))["status"] == "ACTIVE"
        assert await cloud.complaints() == []


async def test_nor_is_it_unshelved_there(tmp_path: Path, database: str) -> None:
    async with ComputeCloud(tmp_path, hosts=HOSTS[:2], database=database) as cloud:
        goes = await _alone(cloud)
        assert await ask(goes, "shelve") == 202
        assert (await cloud.server(goes.server_id))["status"] == "SHELVED_OFFLOADED"
        await cloud.change_host(goes.source, hidden_traits=LACKS)
        await cloud.look_at_hosts()
        assert await ask(goes, "unshelve") == 202
        assert (await cloud.server(goes.server_id))["status"] == "SHELVED_OFFLOADED"
        assert await cloud.complaints() == []
