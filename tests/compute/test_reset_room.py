"""The room of a server that a reset takes out of a move: it is given to nobody else meanwhile."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import force_setattr
from sqlalchemy import select

from mooring.compute.tables import Fault
from mooring.errors import NoCapacity, Unavailable
from tests.compute.cloud import ComputeCloud
from tests.compute.moving import Moving, moving_server
from tests.compute.rebuilding import rebuild
from tests.compute.test_reset_state import reset as reset_unheard
from tests.compute.verifying import force_down
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
HOSTS = ("host1", "host2")
NO_ROOM = "placement has no room left to hold for it there"


@pytest.fixture
async def moving(keeper: Keeper, database: str) -> AsyncGenerator[Moving]:
    async with moving_server(keeper, hosts=HOSTS, database=database) as made:
        yield made


class Greed:
    """Others, who take all that a host has left whenever something is given back."""

    def __init__(self, cloud: ComputeCloud, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.placement, self.host = cloud.compute.placement, host
        self.taken: list[str] = []
        self._release, self._patch = self.placement.release, monkeypatch
        monkeypatch.setattr(self.placement, "release", self._take_what_is_released)

    async def _take_what_is_released(self, consumer_id: str, **more: Any) -> None:
        await self._release(consumer_id, **more)
        (provider,) = [one for one in await self.placement.providers() if one.name == self.host]
        while True:
            consumer = str(uuid4())
            amounts = {provider.uuid: {"VCPU": 1}}
            try:
                await self.placement.claim(consumer, amounts, project_id="p", user_id="u")
            except NoCapacity:
                return
            self.taken.append(consumer)

    async def leave(self) -> None:
        """Give everything back, and take nothing more."""
        self._patch.setattr(self.placement, "release", self._release)
        for consumer in self.taken:
            await self._release(consumer)


async def stuck(moving: Moving) -> None:
    """Begin a cold move that waits for the guest to be switched off."""
    moving.cloud.silent = ("PUT", f"/servers/{moving.server_id}/power")
    await moving.cloud.look_at_hosts()
    assert await moving.cloud.act(moving.server_id, "migrate", None, user="admin") == 202
    await moving.cloud.compute.sagas.settle(10.0)
    (move,) = await moving.migrations(instance_uuid=moving.server_id)
    assert move["status"] in {"pre-migrating", "migrating"}
    assert moving.server_id in (await moving.claims())[1]


async def reset(moving: Moving) -> None:
    state = {"state": "active"}
    assert await moving.cloud.act(moving.server_id, "os-resetState", state, user="admin") == 202
    moving.cloud.silent = None
    await moving.cloud.settle()


async def test_nobody_takes_the_room_that_a_server_gets_back(
    moving: Moving, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stuck(moving)
    greed = Greed(moving.cloud, moving.source, monkeypatch)
    await reset(moving)
    await greed.leave()
    await moving.stays_whole()
    assert await moving.cloud.complaints() == []


async def test_a_server_whose_host_is_full_says_so_and_its_reset_ends(
    moving: Moving, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stuck(moving)
    greed = Greed(moving.cloud, moving.source, monkeypatch)
    # As where an administrator deletes what placement holds.
    (move,) = await moving.migrations(instance_uuid=moving.server_id)
    await moving.cloud.compute.placement.release(move["uuid"])
    await reset(moving)
    assert NO_ROOM in await last_fault(moving)
    assert (await moving.host(), await moving.states()) == (moving.source, ["running", "absent"])
    assert await moving.under_way() == []
    await greed.leave()


@pytest.mark.parametrize("action", ["migrate", "os-migrateLive"])
async def test_a_server_leaves_a_host_that_has_less_than_it_gave(
    moving: Moving, action: str
) -> None:
    cloud, placement = moving.cloud, moving.cloud.compute.placement
    (source,) = [one for one in await placement.providers() if one.name == moving.source]
    full = {source.uuid: {"VCPU": 60}}
    await placement.claim(str(uuid4()), full, project_id="p", user_id="u")
    force_setattr(cloud.compute.settings, "cpu_allocation_ratio", 0.5)
    await cloud.look_at_hosts()
    await cloud.settle()
    value = {"host": None, "block_migration": False} if action == "os-migrateLive" else None
    version = "2.90" if value else "2.1"
    asked = await cloud.act(moving.server_id, action, value, user="admin", version=version)
    assert asked == 202
    await cloud.settle()
    ended = {"migrate": ("VERIFY_RESIZE", "finished"), "os-migrateLive": ("ACTIVE", "completed")}
    shown = (await cloud.server(moving.server_id))["status"], await moving.status()
    assert (*shown, await moving.host()) == (*ended[action], moving.destination)


@pytest.mark.parametrize("dies", [False, True], ids=["answers", "forced_down"])
async def test_no_operator_lets_go_of_a_move_that_nobody_else_would_end(
    moving: Moving, dies: bool
) -> None:
    cloud = moving.cloud
    await stuck(moving)
    cloud.silent = ("", "/")
    state = {"state": "active"}
    assert await cloud.act(moving.server_id, "os-resetState", state, user="admin") == 202
    await cloud.compute.sagas.settle(10.0)
    listed = (await cloud.ask("GET", "/mooring/operations", user="admin")).body["operations"]
    (waits,) = [one["id"] for one in listed if one["name"] == "compute.reset_state"]
    path = f"/mooring/operations/{waits}/action"
    aborted = await cloud.ask("POST", path, {"abort": None}, user="admin")
    assert (aborted.status, "past the point of return" in aborted.fault) == (409, True)
    assert "openstack compute service set --down" in aborted.fault
    if dies:
        await force_down(cloud, moving.source, down=True)
        await cloud.settle()
        assert await moving.under_way() == []
        cloud.silent = None
        await force_down(cloud, moving.source, down=False)
    cloud.silent = None
    await cloud.settle()
    await cloud.look_at_hosts()
    await moving.stays_whole()
    assert await moving.status() == "error"
    assert await cloud.complaints() == []


def let_nobody_answer(cloud: ComputeCloud, point: str) -> None:
    """Let a point be Unavailable whenever it is passed, until the probe is disarmed."""

    def fall() -> Exception:
        cloud.probe.arm(point, fall)
        return Unavailable("Nobody answers.")

    cloud.probe.arm(point, fall)


async def let_go_of_room(moving: Moving, state: str) -> None:
    """Put the server away, lose the answer that its room is free, and reset its state."""
    cloud = moving.cloud
    let_nobody_answer(cloud, "compute.offload_server/release_claim/forward/after")
    assert await cloud.act(moving.server_id, "shelve", None) == 202
    await reset_unheard(cloud, moving.server_id, state)
    cloud.probe.disarm()
    await cloud.settle()
    await cloud.look_at_hosts()


@pytest.mark.parametrize("state", ["active", "error"])
async def test_a_server_that_its_host_had_let_go_of_runs_there_with_room(
    moving: Moving, state: str
) -> None:
    await let_go_of_room(moving, state)
    assert (await moving.cloud.server(moving.server_id))["status"] == "ERROR"
    assert await moving.claims() == [{moving.server_id}, set()]
    assert await moving.cloud.act(moving.server_id, "reboot", {"type": "HARD"}) == 202
    await moving.cloud.settle()
    await moving.stays_whole()
    assert await moving.cloud.complaints() == []


@pytest.mark.parametrize("state", ["active", "error"])
async def test_one_that_no_host_was_found_for_holds_no_room(moving: Moving, state: str) -> None:
    cloud = moving.cloud
    assert await cloud.act(moving.server_id, "shelve", None) == 202
    await cloud.settle()
    for moment in ("forward/after", "back/before"):
        let_nobody_answer(cloud, f"compute.unshelve_server/claim_host/{moment}")
    assert await cloud.act(moving.server_id, "unshelve", None, version="2.90") == 202
    await reset_unheard(cloud, moving.server_id, state)
    cloud.probe.disarm()
    await cloud.settle()
    shown = await cloud.server(moving.server_id)
    assert shown["status"] == {"active": "SHELVED_OFFLOADED", "error": "ERROR"}[state]
    assert await moving.claims() == [set(), set()]


async def test_so_does_one_whose_deletion_had_given_its_room_back(moving: Moving) -> None:
    cloud = moving.cloud
    server_id = await cloud.make_server()
    let_nobody_answer(cloud, "compute.delete_server/delete_image/forward/before")
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await reset_unheard(cloud, server_id)
    cloud.probe.disarm()
    await cloud.settle()
    await cloud.look_at_hosts()
    assert (await rebuild(cloud, server_id, cloud.image_id)).status == 202
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    assert await cloud.complaints() == []


async def test_one_whose_room_others_took_meanwhile_says_so(
    moving: Moving, monkeypatch: pytest.MonkeyPatch
) -> None:
    greed = Greed(moving.cloud, moving.source, monkeypatch)
    await let_go_of_room(moving, "active")
    assert NO_ROOM in await last_fault(moving)
    assert (await moving.cloud.server(moving.server_id))["status"] == "ERROR"
    await greed.leave()


async def last_fault(moving: Moving) -> str:
    """Return the newest fault of the server, whether it is shown or not."""
    query = select(Fault.message).where(Fault.server_id == moving.server_id)
    newest = query.order_by(Fault.id.desc()).limit(1)
    return await moving.cloud.compute.store.read(lambda tx: tx.execute(newest).scalar() or "")
