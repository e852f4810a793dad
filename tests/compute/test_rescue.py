"""Rescued servers: what they boot from, what they keep, and how they come back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.compute.cloud import IMAGE, NEW, ComputeCloud
from tests.compute.rescuing import HARD, guest_of, make_from_volume, rescue, rescue_files, unrescue
from tests.compute.sharing import SharingCloud
from tests.compute.test_power import state

pytestmark = pytest.mark.anyio
STABLE = "7d1f7f30-35a4-4f0e-8d51-0b5b6a5d2c44"


@pytest.fixture
def shelved(cloud: ComputeCloud) -> ComputeCloud:
    """The cloud, with an image that asks for a stable rescue."""
    cloud.shelf.put(STABLE, b"help" * 16384, name="stable", hw_rescue_device="disk")
    return cloud


async def refused(cloud: ComputeCloud, server_id: str, value: Any = None, **how: Any) -> str:
    """Return what is told of a rescue that was not begun."""
    before = await cloud.server(server_id)
    path = f"/servers/{server_id}/action"
    answer = await cloud.ask("POST", path, {"rescue": value}, **how)
    assert answer.status == 400, answer.text
    assert await cloud.server(server_id) == before
    return answer.text


async def test_a_rescued_server_boots_from_its_own_image_and_keeps_its_disks(
    any_cloud: ComputeCloud,
) -> None:
    cloud = any_cloud
    server_id, volume_id = await cloud.make_attached()
    before = await guest_of(cloud, server_id)
    path = f"/servers/{server_id}/action"
    answer = await cloud.ask("POST", path, {"rescue": {"adminPass": "s3cret"}})
    assert (answer.status, answer.body) == (200, {"adminPass": "s3cret"})
    assert (await cloud.server(server_id))["OS-EXT-STS:task_state"] in {"rescuing", None}
    await cloud.settle()
    assert await state(cloud, server_id) == ("RESCUE", None, 1)
    assert (await cloud.server(server_id))["OS-EXT-STS:vm_state"] == "rescued"
    guest = await guest_of(cloud, server_id)
    assert (guest.rescue_image_id, guest.root_device) == (IMAGE, "/dev/vda")
    assert [(one.volume_id, one.device) for one in guest.disks] == [(volume_id, "/dev/vdc")]
    await unrescue(cloud, server_id)
    assert await state(cloud, server_id) == ("ACTIVE", None, 1)
    assert await guest_of(cloud, server_id) == before
    assert rescue_files(cloud) == []
    done = [action for action, _ in await cloud.actions(server_id)]
    assert done[-2:] == ["rescue", "unrescue"]


async def test_a_password_is_made_where_none_is_given(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    answer = await cloud.ask("POST", f"/servers/{server_id}/action", {"rescue": None})
    assert answer.status == 200
    assert len(answer.body["adminPass"]) == 12
    await cloud.settle()


def wanted_device(device: str, bus: str) -> dict[str, str]:
    """Return what an image says, without the words that are empty."""
    said = {"hw_rescue_device": device, "hw_rescue_bus": bus}
    return {name: word for name, word in said.items() if word}


@pytest.mark.parametrize(
    ("device", "bus", "given", "root"),
    [
        ("disk", "virtio", ("disk", "virtio"), "/dev/vdb"),
        ("disk", "scsi", ("disk", "scsi"), "/dev/sdab"),
        ("disk", "usb", ("disk", "usb"), "/dev/sdab"),
        ("disk", "sata", ("disk", "sata"), "/dev/sdab"),
        ("", "ide", ("disk", "sata"), "/dev/sdab"),
        ("cdrom", "", ("cdrom", "sata"), "/dev/sdab"),
        ("cdrom", "ide", ("cdrom", "sata"), "/dev/sdab"),
        ("cdrom", "scsi", ("cdrom", "scsi"), "/dev/sdab"),
        ("cdrom", "usb", ("cdrom", "usb"), "/dev/sdab"),
    ],
)
async def test_a_server_is_rescued_by_the_device_and_the_bus_that_its_image_asks_for(
    cloud: ComputeCloud, device: str, bus: str, given: tuple[str, str], root: str
) -> None:
    server_id = await cloud.make_server()
    cloud.shelf.put(STABLE, b"help" * 16384, **wanted_device(device, bus))
    await rescue(cloud, server_id, {"rescue_image_ref": STABLE})
    assert await state(cloud, server_id) == ("RESCUE", None, 1)
    assert (await guest_of(cloud, server_id)).root_device == root
    said = await cloud.known_agents["host1"].read_console(server_id)
    assert ("boots from {} on {}".format(*given) in said) is (given != ("disk", "virtio"))
    await unrescue(cloud, server_id)
    assert await state(cloud, server_id) == ("ACTIVE", None, 1)


async def test_an_image_with_a_rescue_device_leaves_the_disks_their_names(
    shelved: ComputeCloud,
) -> None:
    server_id, volume_id = await shelved.make_attached()
    await rescue(shelved, server_id, {"rescue_image_ref": STABLE})
    guest = await guest_of(shelved, server_id)
    assert (guest.rescue_image_id, guest.root_device) == (STABLE, "/dev/vdc")
    assert [(one.volume_id, one.device) for one in guest.disks] == [(volume_id, "/dev/vdb")]
    assert (await shelved.server(server_id))["image"]["id"] == IMAGE


@pytest.mark.parametrize("vm_state", ["active", "stopped", "error"])
async def test_servers_that_run_are_off_or_broken_are_rescued_and_then_run(
    cloud: ComputeCloud, vm_state: str
) -> None:
    server_id = await cloud.make_server()
    if vm_state == "stopped":
        await cloud.act(server_id, "os-stop")
    if vm_state == "error":
        await cloud.act(server_id, "os-resetState", {"state": "error"}, user="admin")
    await cloud.settle()
    await rescue(cloud, server_id, {"rescue_image_ref": NEW})
    assert await state(cloud, server_id) == ("RESCUE", None, 1)
    assert (await guest_of(cloud, server_id)).rescue_image_id == NEW
    await unrescue(cloud, server_id)
    assert await state(cloud, server_id) == ("ACTIVE", None, 1)


@pytest.mark.parametrize(
    ("action", "value"),
    [
        ("rescue", None),
        ("os-start", None),
        ("os-stop", None),
        ("reboot", HARD),
        ("reboot", {"type": "SOFT"}),
        ("pause", None),
        ("suspend", None),
        ("shelve", None),
        ("resize", {"flavorRef": "2"}),
        ("migrate", None),
        ("os-migrateLive", {"host": None, "block_migration": "auto"}),
        ("rebuild", {"imageRef": IMAGE}),
        ("createImage", {"name": "copy"}),
    ],
)
async def test_what_a_rescued_server_does_not_allow_is_409(
    cloud: ComputeCloud, action: str, value: Any
) -> None:
    server_id = await cloud.make_server()
    await rescue(cloud, server_id)
    path = f"/servers/{server_id}/action"
    answer = await cloud.ask("POST", path, {action: value}, user="admin")
    assert answer.status == 409
    assert f"instance {server_id} while it is in vm_state rescued" in answer.text
    assert await state(cloud, server_id) == ("RESCUE", None, 1)


async def test_no_volume_comes_or_goes_while_a_server_is_rescued(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_attached()
    other = await cloud.make_volume()
    await rescue(cloud, server_id)
    assert (await cloud.attach(server_id, other)).status == 409
    assert (await cloud.detach(server_id, volume_id)).status == 409
    await unrescue(cloud, server_id)
    assert (await cloud.detach(server_id, volume_id)).status == 202
    await cloud.settle()


@pytest.mark.parametrize("action", ["unrescue", "rescue"])
async def test_a_locked_server_stands_as_it_was(cloud: ComputeCloud, action: str) -> None:
    server_id = await cloud.make_server()
    if action == "unrescue":
        await rescue(cloud, server_id)
    await cloud.act(server_id, "lock")
    assert await cloud.act(server_id, action) == 409
    await cloud.act(server_id, "unlock")
    assert await cloud.act(server_id, action) in {200, 202}
    await cloud.settle()


async def test_only_a_rescued_server_is_unrescued(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    answer = await cloud.ask("POST", f"/servers/{server_id}/action", {"unrescue": None})
    assert answer.status == 409
    assert f"Cannot 'unrescue' instance {server_id} while it is in vm_state active" in answer.text


async def test_a_server_whose_host_is_down_stands_as_it_was(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    cloud.clock.advance(1000.0)
    assert await cloud.act(server_id, "rescue") == 409
    assert await state(cloud, server_id) == ("ACTIVE", None, 1)


async def test_one_that_boots_from_a_volume_is_rescued_from_287_on(shelved: ComputeCloud) -> None:
    server_id, volume_id = await make_from_volume(shelved)
    before = await guest_of(shelved, server_id)
    stable = {"rescue_image_ref": STABLE}
    assert "needs compute API version 2.87" in await refused(
        shelved, server_id, stable, version="2.86"
    )
    assert "name one by rescue_image_ref" in await refused(shelved, server_id)
    plain = await refused(shelved, server_id, {"rescue_image_ref": NEW})
    assert "has neither hw_rescue_device nor hw_rescue_bus" in plain
    await rescue(shelved, server_id, stable, version="2.87")
    guest = await guest_of(shelved, server_id)
    assert (guest.rescue_image_id, guest.root_device) == (STABLE, "/dev/vdb")
    assert [(one.volume_id, one.device) for one in guest.disks] == [(volume_id, "/dev/vda")]
    await unrescue(shelved, server_id)
    assert await guest_of(shelved, server_id) == before


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"status": "deactivated"}, "is not active, it is deactivated"),
        ({"min_ram": 100_000}, "memory is too small"),
        ({"min_disk": 1000}, "is larger than the root disk"),
        ({"virtual_size": 1 << 50}, "is larger than the root disk"),
        ({"hw_rescue_device": "floppy"}, "a rescue device floppy on virtio"),
        ({"hw_rescue_device": "cdrom", "hw_rescue_bus": "virtio"}, "cdrom on virtio"),
        ({"hw_rescue_bus": "fdc"}, "a rescue device disk on fdc"),
        ({"size": 0}, "has no data of its own"),
    ],
)
async def test_an_image_that_does_not_fit_changes_nothing(
    cloud: ComputeCloud, said: dict[str, Any], why: str
) -> None:
    server_id = await cloud.make_server()
    cloud.shelf.put(STABLE, b"help" * 16384, **said)
    assert why in await refused(cloud, server_id, {"rescue_image_ref": STABLE})
    gone = {"rescue_image_ref": "99999999-9999-4999-8999-999999999999"}
    assert "Cannot find image" in await refused(cloud, server_id, gone)


@pytest.mark.parametrize(
    "value",
    [{"rescue_image_ref": "no-uuid"}, {"rescue_image_ref": None}, {"adminPass": 5}, {"image": "x"}],
)
async def test_a_body_that_makes_no_sense_is_400(cloud: ComputeCloud, value: Any) -> None:
    server_id = await cloud.make_server()
    assert await cloud.act(server_id, "rescue", value) == 400


async def test_an_agent_that_knows_no_rescue_is_not_asked_for_one(shelved: ComputeCloud) -> None:
    server_id, (other, _) = await shelved.make_server(), await make_from_volume(shelved)
    await shelved.change_host("host1", hidden_traits=frozenset({"COMPUTE_RESCUE_BFV"}))
    answer = await shelved.ask("POST", f"/servers/{server_id}/action", {"rescue": None})
    assert answer.status == 409
    assert "upgrade its agent first" in answer.text
    assert "Host unable to rescue" in await refused(shelved, other, {"rescue_image_ref": STABLE})


async def test_an_agent_of_an_older_release_is_asked_for_disks_on_virtio_and_scsi_alone(
    cloud: ComputeCloud,
) -> None:
    server_id = await cloud.make_server()
    buses = {f"COMPUTE_STORAGE_BUS_{bus}" for bus in ("SATA", "SCSI", "USB", "VIRTIO")}
    await cloud.change_host("host1", hidden_traits=frozenset(buses))
    path, value = f"/servers/{server_id}/action", {"rescue": {"rescue_image_ref": STABLE}}
    for device, bus in (("cdrom", "scsi"), ("cdrom", ""), ("disk", "usb")):
        cloud.shelf.put(STABLE, b"help" * 16384, **wanted_device(device, bus))
        answer = await cloud.ask("POST", path, value)
        assert answer.status == 409
        assert "lacks the trait COMPUTE_STORAGE_BUS_" in answer.text
        assert await state(cloud, server_id) == ("ACTIVE", None, 1)
    cloud.shelf.put(STABLE, b"help" * 16384, **wanted_device("disk", "scsi"))
    await rescue(cloud, server_id, {"rescue_image_ref": STABLE})
    assert await state(cloud, server_id) == ("RESCUE", None, 1)


async def test_shares_and_config_drive_are_there_in_a_rescue(tmp_path: Path) -> None:
    async with SharingCloud(tmp_path) as cloud:
        server_id, _ = await cloud.make_shared(config_drive=True)
        await cloud.power(server_id, "os-start")
        before = await guest_of(cloud, server_id)
        await rescue(cloud, server_id)
        guest = await guest_of(cloud, server_id)
        assert (guest.shares, guest.has_drive) == (before.shares, True)
        said = await cloud.known_agents["host1"].read_console(server_id)
        assert said.count("mooring-guest: drive {") == 3
        await unrescue(cloud, server_id)
        assert await guest_of(cloud, server_id) == before
