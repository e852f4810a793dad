"""What specs 001 says of attaching and detaching by either flow: each test names its sentence."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.clients import transport
from mooring.errors import Conflict
from tests.compute.cloud import ComputeCloud
from tests.compute.listening import GUESTS, Listener
from tests.compute.swapping import swap

pytestmark = pytest.mark.anyio


async def make_mixed(cloud: ComputeCloud) -> tuple[str, str, str]:
    """Make a server with a volume of the new flow and one of the old; return all ids."""
    server_id, new = await cloud.make_attached()
    old = await cloud.make_volume()
    await cloud.make_legacy(server_id, old)
    return server_id, new, old


async def test_an_attachment_without_connector_is_created_before_the_api_call_returns(
    cloud: ComputeCloud,
) -> None:
    """(api) call attachment_create, with no connector. BDM record is updated with attachment_id."""
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    cloud.hypervisor().knobs.hold("plug")
    listener = Listener(cloud)
    assert (await cloud.attach(server_id, volume_id)).status == 200
    assert listener.heard == ["POST attachment"]
    (kept,) = (await cloud.volume_api("GET", f"/attachments?volume_id={volume_id}"))["attachments"]
    (device,) = await cloud.attachments(server_id)
    assert device["attachment_id"] == kept["id"]
    cloud.hypervisor().knobs.release("plug")
    await cloud.settle()


async def test_an_attach_calls_in_the_order_of_the_specification(cloud: ComputeCloud) -> None:
    """Connector and update; connect and attach to the VM; then complete."""
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    listener = Listener(cloud, GUESTS)
    await cloud.attach(server_id, volume_id)
    await cloud.settle()
    assert listener.heard == [
        "POST attachment",
        "PUT attachment with connector",
        "host1: PUT disks",
        "POST attachment complete",
    ]


async def test_errors_disconnect_and_remove_the_attachment(cloud: ComputeCloud) -> None:
    """If there are any errors, attempt to disconnect, and then remove the attachment in Cinder."""
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    cloud.hypervisor().knobs.fail("plug", Conflict("It does not connect."))
    listener = Listener(cloud, GUESTS)
    await cloud.attach(server_id, volume_id)
    await cloud.settle()
    assert listener.heard[2:] == ["host1: PUT disks", "host1: DELETE disks", "DELETE attachment"]
    assert await cloud.connections() == []
    assert await cloud.volume_status(volume_id) == "available"


async def test_if_attachment_id_is_set_the_new_detach_flow_is_used_otherwise_the_old_one(
    cloud: ComputeCloud,
) -> None:
    """Also beside each other, on one server."""
    server_id, new, old = await make_mixed(cloud)
    listener = Listener(cloud, GUESTS)
    assert (await cloud.detach(server_id, new)).status == 202
    await cloud.settle()
    assert listener.heard == [
        "volume os-begin_detaching",
        "host1: DELETE disks",
        "DELETE attachment",
    ]
    listener.heard.clear()
    assert (await cloud.detach(server_id, old)).status == 202
    await cloud.settle()
    assert listener.heard == [
        "volume os-begin_detaching",
        "host1: DELETE disks",
        "volume os-terminate_connection",
        "volume os-detach",
    ]
    assert [await cloud.volume_status(one) for one in (new, old)] == ["available"] * 2


async def test_if_the_vm_does_not_let_go_the_request_stops_there(cloud: ComputeCloud) -> None:
    """(compute) detach volume from VM, if fails stop request here."""
    server_id, volume_id = await cloud.make_attached()
    (before,) = await cloud.attachments(server_id)
    cloud.hypervisor().knobs.fail("unplug", Conflict("It will not let go."))
    listener = Listener(cloud)
    await cloud.detach(server_id, volume_id)
    await cloud.settle()
    assert listener.heard == ["volume os-begin_detaching", "volume os-roll_detaching"]
    assert await cloud.attachments(server_id) == [before]
    assert await cloud.volume_status(volume_id) == "in-use"


async def test_an_error_behind_the_vm_is_a_fault_and_the_instance_is_in_error(
    cloud: ComputeCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If success, attachment_remove is called; otherwise a fault, and the error state."""
    server_id, volume_id = await cloud.make_attached()

    async def refuse(attachment_id: str) -> None:
        del attachment_id
        raise Conflict("The device is in use.")

    listener = Listener(cloud)
    with monkeypatch.context() as refusing:
        refusing.setattr(cloud.agents["host1"].agent.connections, "disconnect", refuse)
        await cloud.detach(server_id, volume_id)
        await cloud.compute.sagas.settle(1.0)
    shown = await cloud.server(server_id)
    assert shown["status"] == "ERROR"
    assert shown["fault"]["message"].endswith(" The device is in use.")
    assert "DELETE attachment" not in listener.heard
    assert len(await cloud.attachments(server_id)) == 1


async def test_connection_data_is_fetched_each_time_and_by_the_attachment_s_id(
    cloud: ComputeCloud,
) -> None:
    """When an attachment_id is populated, we use the new flow; when not present, the old flow."""
    server_id, new, old = await make_mixed(cloud)
    named = {one["volumeId"]: one["attachment_id"] for one in await cloud.attachments(server_id)}
    asked: list[str] = []

    async def note(request: transport.Request, forward: transport.Forward) -> transport.Response:
        if "/volume/v3/attachments/" in request.path:
            asked.append(request.path.rpartition("/")[2])
        if request.path == f"/volume/v3/volumes/{old}/action":
            asked.append(request.content.decode().split('"')[1])
        return await forward(request)

    cloud.deliver = note
    assert await cloud.act(server_id, "reboot", {"type": "HARD"}) == 202
    await cloud.settle()
    assert sorted({*asked}) == sorted([named[new], "os-initialize_connection"])
    assert sorted(await cloud.disks(server_id)) == sorted([new, old])


@pytest.mark.parametrize("which", ["new", "old"])
async def test_a_volume_of_either_flow_is_swapped_beside_one_of_the_other(
    cloud: ComputeCloud, which: str
) -> None:
    """The new volume has an attachment; the old one goes as it came."""
    server_id, new, old = await make_mixed(cloud)
    leaves = {"new": new, "old": old}[which]
    comes = await cloud.make_volume()
    listener = Listener(cloud)
    assert (await swap(cloud, server_id, leaves, comes)).status == 202
    await cloud.settle()
    ways: dict[str, list[Any]] = {
        "new": ["DELETE attachment"],
        "old": ["volume os-terminate_connection", "volume os-detach"],
    }
    assert listener.heard[-len(ways[which]) :] == ways[which]
    assert await cloud.volume_status(leaves) == "available"
    assert await cloud.complaints() == []
