"""Servers and volumes by the stock `openstack` command."""

from __future__ import annotations

import pytest

from tests.contract.clients import Http, Refused, Shell

pytestmark = pytest.mark.contract
SMALL = ("--flavor", "m1.nano", "--no-network")


def test_a_flavor_is_made_shown_and_deleted(operator: Shell) -> None:
    size = ("--vcpus", "1", "--ram", "64", "--disk", "1", "--property", "hw:mem_page_size=any")
    made = operator.ask("flavor", "create", "c1.mini", *size)
    listed, shown = operator.ask_each(("flavor", "list"), ("flavor", "show", "c1.mini"))
    assert "c1.mini" in {row["Name"] for row in listed}
    assert (shown["id"], shown["ram"], shown["vcpus"]) == (made["id"], 64, 1)
    assert shown["properties"] == {"hw:mem_page_size": "any"}
    operator.run("flavor", "delete", "c1.mini")
    with pytest.raises(Refused, match=r"No Flavor found for c1\.mini"):
        operator.run("flavor", "show", "c1.mini")


def test_volumes_are_made_empty_and_from_an_image(demo: Shell, member: Http, guest: str) -> None:
    empty, filled = demo.ask_each(
        ("volume", "create", "empty", "--size", "1", "--description", "first"),
        ("volume", "create", "filled", "--size", "1", "--image", "guest"),
    )
    assert (empty["status"], empty["type"]) == ("creating", "__DEFAULT__")
    for made in (empty, filled):
        member.until_volume(made["id"], "available")
    listed, shown = demo.ask_each(("volume", "list", "--long"), ("volume", "show", "filled"))
    rows = {row["Name"]: row for row in listed}
    assert (rows["empty"]["Status"], rows["empty"]["Size"]) == ("available", 1)
    assert (rows["filled"]["Bootable"], rows["empty"]["Bootable"]) == (True, False)
    assert shown["volume_image_metadata"]["image_id"] == guest
    demo.run("volume", "delete", "empty", "filled")
    _wait_until_gone(member, empty["id"], filled["id"])


def test_a_server_lives_its_life(demo: Shell, member: Http, guest: str) -> None:
    made = demo.ask("server", "create", "life", "--image", "guest", *SMALL, "--wait")
    assert (made["status"], made["name"]) == ("ACTIVE", "life")
    assert made["image"] == f"guest ({guest})"
    assert len(made["adminPass"]) >= 12
    listed, shown = demo.ask_each(("server", "list"), ("server", "show", "life"))
    [row] = [row for row in listed if row["Name"] == "life"]
    assert (row["Status"], row["Flavor"], row["Image"]) == ("ACTIVE", "m1.nano", "guest")
    assert shown["OS-EXT-STS:vm_state"] == "active"
    assert "fault" not in shown
    demo.run("server", "stop", "life")
    member.until_server(made["id"], "SHUTOFF")
    demo.run("server", "start", "life")
    member.until_server(made["id"], "ACTIVE")
    assert "Complete" in demo.run("server", "reboot", "--soft", "--wait", "life")
    assert "Complete" in demo.run("server", "reboot", "--hard", "--wait", "life")
    assert demo.run("console", "log", "show", "life").count("mooring-guest: up") == 4
    _its_events_tell_what_happened(demo, made["id"])
    demo.run("server", "delete", "--wait", "life")
    with pytest.raises(Refused, match="No Server found for life"):
        demo.run("server", "show", "life")


def _its_events_tell_what_happened(demo: Shell, server_id: str) -> None:
    events = demo.ask("server", "event", "list", "--long", server_id)
    assert [event["Action"] for event in events] == ["reboot", "reboot", "start", "stop", "create"]
    assert all(event["Message"] is None for event in events)
    shown = demo.ask("server", "event", "show", server_id, events[-1]["Request ID"])
    assert (shown["action"], shown["request_id"]) == ("create", events[-1]["Request ID"])
    assert {event["result"] for event in shown["events"]} == {"Success"}


def test_a_server_stands_still_and_goes_on(demo: Shell, member: Http, guest: str) -> None:
    server = member.server("still", guest)
    for still, goes_on, status, power_state in (
        ("pause", "unpause", "PAUSED", 3),
        ("suspend", "resume", "SUSPENDED", 4),
    ):
        demo.run("server", still, "still")
        member.until_server(server, status)
        shown = demo.ask("server", "show", "still")
        assert (shown["status"], shown["OS-EXT-STS:power_state"]) == (status, power_state)
        with pytest.raises(Refused, match=f"Cannot '{still}' instance {server}"):
            demo.run("server", still, "still")
        demo.run("server", goes_on, "still")
        member.until_server(server, "ACTIVE")
    assert demo.run("console", "log", "show", "still").count("mooring-guest: up") == 1
    demo.run("server", "delete", "--wait", "still")


def test_a_server_is_rescued_and_comes_back(demo: Shell, member: Http, guest: str) -> None:
    server = member.server("stuck", guest)
    demo.run("server", "rescue", "--image", guest, "--password", "s3cret", "stuck")
    member.until_server(server, "RESCUE")
    assert demo.ask("server", "show", "stuck")["OS-EXT-STS:vm_state"] == "rescued"
    with pytest.raises(Refused, match=f"Cannot 'rescue' instance {server}"):
        demo.run("server", "rescue", "stuck")
    demo.run("server", "unrescue", "stuck")
    member.until_server(server, "ACTIVE")
    events = demo.ask("server", "event", "list", "--long", server)
    assert [event["Action"] for event in events] == ["unrescue", "rescue", "create"]
    demo.run("server", "delete", "--wait", "stuck")


def test_volumes_are_attached_listed_and_detached(demo: Shell, member: Http, guest: str) -> None:
    server = member.server("moor", guest)
    first, second = member.volume("first"), member.volume("second")
    added = demo.ask("server", "add", "volume", "moor", "first")
    assert (added["Volume ID"], added["Server ID"]) == (first, server)
    assert added["Device"] == "/dev/vdb"
    demo.run("server", "add", "volume", "moor", "second", "--enable-delete-on-termination")
    member.until_volume(second, "in-use")
    rows, volumes = demo.ask_each(("server", "volume", "list", "moor"), ("volume", "list"))
    assert {row["Volume ID"]: row["Device"] for row in rows} == {
        first: "/dev/vdb",
        second: "/dev/vdc",
    }
    assert all(row["Attachment ID"] and row["BlockDeviceMapping UUID"] for row in rows)
    statuses = {row["ID"]: row["Status"] for row in volumes}
    assert (statuses[first], statuses[second]) == ("in-use", "in-use")
    demo.run("server", "remove", "volume", "moor", "first")
    member.until_volume(first, "available")
    demo.run("volume", "delete", "first")
    demo.run("server", "delete", "--wait", "moor")
    _wait_until_gone(member, first, second)


def test_what_is_refused_is_said_in_a_line(demo: Shell, member: Http, guest: str) -> None:
    server, volume = member.server("busy", guest), member.volume("taken")
    member.attach(server, volume)
    with pytest.raises(Refused, match=r"in-use|attached"):
        demo.run("volume", "delete", "taken")
    with pytest.raises(Refused, match=r"HTTP 40[09]|ConflictException|BadRequestException"):
        demo.run("server", "add", "volume", "busy", "taken")
    with pytest.raises(Refused, match="No Image found for nothing"):
        demo.run("server", "create", "bad", "--image", "nothing", *SMALL)
    member.delete_server(server)
    member.delete_volume(volume)


def test_servers_boot_from_images_volumes_and_block_devices(
    demo: Shell, member: Http, guest: str
) -> None:
    data, root = member.volume("data"), _bootable(member, guest)
    demo.run("server", "create", "with-root", *SMALL, "--volume", root, "--wait")
    sized = ("--image", "guest", "--boot-from-volume", "1")
    demo.run("server", "create", "new-root", *SMALL, *sized, "--wait")
    root_disk = f"uuid={guest},source_type=image,destination_type=volume,boot_index=0,volume_size=1"
    data_disk = f"uuid={data},source_type=volume,destination_type=volume"
    ends_too = "delete_on_termination=true"
    devices = ("--block-device", f"{root_disk},{ends_too}", "--block-device", data_disk)
    demo.run("server", "create", "with-disks", *SMALL, *devices, "--wait")
    names = ("with-root", "new-root", "with-disks")
    shown = demo.ask_each(*(("server", "show", name) for name in names))
    assert {server["image"] for server in shown} == {"N/A (booted from volume)"}
    assert [len(server["volumes_attached"]) for server in shown] == [1, 1, 2]
    demo.run("server", "delete", "--wait", *names)
    [kept] = [disk["id"] for disk in shown[1]["volumes_attached"]]
    [ended] = {disk["id"] for disk in shown[2]["volumes_attached"]} - {data}
    _wait_until_gone(member, ended)
    rows = {row["ID"]: row["Status"] for row in demo.ask("volume", "list")}
    assert {rows[volume] for volume in (data, root, kept)} == {"available"}
    demo.run("volume", "delete", data, root, kept)
    _wait_until_gone(member, data, root, kept)


def _wait_until_gone(member: Http, *volumes: str) -> None:
    for volume in volumes:
        member.until(f"/volume/v3/volumes/{volume}", lambda got: got.status == 404)


def _bootable(member: Http, guest: str) -> str:
    body = {"volume": {"name": "root", "size": 1, "imageRef": guest}}
    made = member.ask("POST", "/volume/v3/volumes", body, version="3.60").key("volume")
    member.until_volume(made["id"], "available")
    return made["id"]


def test_a_debug_run_is_free_of_errors(demo: Shell) -> None:
    done = demo.execute("--debug", "server", "list")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert not [line for line in done.stderr.splitlines() if "RESP: [4" in line or "[5" in line]
