"""What specs 003 says of which servers with shares may move, by which version, and where to."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.compute.shared_moves import (
    NEW,
    OLD,
    Sharing,
    fault,
    server_with_shares,
    sharing_cloud,
    sharing_server,
    switch,
)
from tests.compute.sharing import SharingCloud
from tests.compute.verifying import force_down
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
LARGER = "84"
"""A flavor with more memory and as large a disk."""
MOVES = [("migrate", None), ("resize", {"flavorRef": LARGER})]


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncGenerator[SharingCloud]:
    async with sharing_cloud(tmp_path) as opened:
        yield opened


@pytest.fixture
async def sharing(keeper: Keeper) -> AsyncGenerator[Sharing]:
    """A server that runs with two shares."""
    async with sharing_server(keeper, shares=2) as made:
        yield made


# -- what remains blocked ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "value", "status"),
    [
        ("evacuate", {}, 409),
        ("rebuild", {"imageRef": "image"}, 400),
        ("shelve", None, 409),
        ("suspend", None, 409),
        ("os-migrateLive", {"host": None, "block_migration": "auto"}, 409),
    ],
)
async def test_other_moves_and_what_stops_a_guest_remain_blocked_in_the_new_version(
    sharing: Sharing, action: str, value: object, status: int
) -> None:
    """Evacuate, rebuild, shelve and suspend remain blocked for servers with share attachments."""
    cloud = sharing.cloud
    if action == "evacuate":
        cloud.hypervisor(sharing.source).crash(sharing.server_id)
        await force_down(cloud, sharing.source, down=True)
    value = {"imageRef": cloud.image_id} if action == "rebuild" else value
    before = await cloud.actions(sharing.server_id)
    answer = await sharing.ask(action, value, version=NEW)
    assert answer.status == status, answer.text
    assert "detach its shares" in answer.text
    assert await cloud.actions(sharing.server_id) == before
    assert (await sharing.see()).rules == [{sharing.source}] * 2


async def test_no_share_is_attached_or_detached_before_the_user_s_word(cloud: SharingCloud) -> None:
    """Concurrent share attach and detach are prevented by the vm_state check in the shares API."""
    sharing = await server_with_shares(cloud, await cloud.make_share(), runs=False)
    other = await cloud.make_share()
    for word in ("revertResize", "confirmResize"):
        await sharing.act("migrate")
        attached = await cloud.add_share(sharing.server_id, other)
        detached = await cloud.remove_share(sharing.server_id, sharing.shares[0])
        for answer in (attached, detached):
            assert answer.status == 409
            assert "while it is in vm_state resized" in answer.text
        await cloud.settle()
        await sharing.has(rules="sd", mounts="", guest="")
        await sharing.act(word)
    assert (await cloud.add_share(sharing.server_id, other)).status == 201
    await cloud.settle()


# -- the gates ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "value"), [("migrate", None), ("resize", {"flavorRef": LARGER})]
)
async def test_below_its_microversion_a_server_with_shares_is_not_moved(
    sharing: Sharing, action: str, value: object
) -> None:
    answer = await sharing.ask(action, value, version=OLD)
    assert answer.status == 409
    assert "--os-compute-api-version 2.106" in answer.text
    await sharing.has(rules="s", mounts="s", guest="s")
    await sharing.act(action, value, version=NEW)
    assert await sharing.status() == "VERIFY_RESIZE"


@pytest.mark.parametrize(
    ("action", "value"), [("migrate", None), ("resize", {"flavorRef": LARGER})]
)
async def test_while_a_host_is_too_old_a_server_with_shares_is_not_moved(
    tmp_path: Path, action: str, value: object
) -> None:
    """A dead host counts until it is removed."""
    async with sharing_cloud(tmp_path, ("host1", "host2", "host3")) as cloud:
        sharing = await server_with_shares(cloud, await cloud.make_share())
        old = next(
            host for host in cloud.hosts if host not in {sharing.source, sharing.destination}
        )
        await cloud.change_host(old, version=74)
        answer = await sharing.ask(action, value)
        assert answer.status == 409
        said = answer.body["conflictingRequest"]["message"]
        assert said.startswith(f"Host {old} (74) is older than service version 75 and cannot")
        await cloud.change_host(old, version=75)
        await sharing.act(action, value)
        assert await sharing.status() == "VERIFY_RESIZE"


async def test_a_server_without_shares_moves_by_every_version_and_among_old_hosts(
    cloud: SharingCloud,
) -> None:
    await cloud.change_host("host2", version=74)
    sharing = await server_with_shares(cloud)
    await sharing.act("migrate", version="2.55")
    assert await sharing.status() == "VERIFY_RESIZE"


# -- where it may go ---------------------------------------------------------------------------


@pytest.mark.parametrize("lacking", ["COMPUTE_STORAGE_VIRTIO_FS", "COMPUTE_MEM_BACKING_FILE"])
async def test_a_host_without_the_traits_gets_no_server_with_shares(
    sharing: Sharing, lacking: str
) -> None:
    await sharing.cloud.change_host(sharing.destination, hidden_traits=frozenset({lacking}))
    await sharing.act("migrate")
    assert (await sharing.status(), await sharing.host()) == ("ACTIVE", sharing.source)
    assert "1 not fit for COMPUTE_MEM_BACKING_FILE, COMPUTE_STORAGE_VIRTIO_FS" in await fault(
        sharing
    )
    await sharing.has(rules="s", mounts="s", guest="s")


async def test_huge_pages_of_the_new_flavor_stand_for_memory_backed_by_a_file(
    sharing: Sharing,
) -> None:
    hidden = frozenset({"COMPUTE_MEM_BACKING_FILE"})
    await sharing.cloud.change_host(sharing.destination, hidden_traits=hidden)
    await switch(sharing.cloud, sharing.source, "disabled")
    await sharing.act("resize", {"flavorRef": LARGER})
    assert await sharing.status() == "ACTIVE"
    path, specs = (
        f"/flavors/{LARGER}/os-extra_specs",
        {"extra_specs": {"hw:mem_page_size": "large"}},
    )
    assert (await sharing.cloud.ask("POST", path, specs, user="admin")).status == 200
    await sharing.act("resize", {"flavorRef": LARGER})
    assert (await sharing.status(), await sharing.host()) == ("VERIFY_RESIZE", sharing.destination)
    await sharing.has(rules="sd", mounts="sd", guest="d")
