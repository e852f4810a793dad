"""Snapshots by the stock `openstack` command, and by openstacksdk."""

from __future__ import annotations

from typing import Any

import pytest
from openstack.connection import Connection
from openstack.exceptions import BadRequestException

from tests.contract.clients import VOLUME, Answer, Cloud, Http, Refused, Shell

# The SDK announces what it will drop when its own code, and not its caller, still uses it.
pytestmark = [
    pytest.mark.contract,
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The field '.*' has been deprecated"),
]


def until_snapshot(member: Http, snapshot_id: str, status: str) -> None:
    def holds(answer: Answer) -> bool:
        return answer.key("snapshot")["status"] == status

    member.until(f"{VOLUME}/snapshots/{snapshot_id}", holds)


def until_gone(member: Http, snapshot_id: str) -> None:
    member.until(f"{VOLUME}/snapshots/{snapshot_id}", lambda answer: answer.status == 404)


def test_a_snapshot_is_taken_copied_and_deleted(demo: Shell, member: Http) -> None:
    volume_id = member.volume("photographed")
    made = demo.ask(
        *("volume", "snapshot", "create", "first", "--volume", "photographed"),
        *("--description", "of the morning", "--property", "a=b"),
    )
    assert (made["volume_id"], made["size"], made["status"]) == (volume_id, 1, "creating")
    until_snapshot(member, made["id"], "available")
    demo.run("volume", "snapshot", "set", "first", "--name", "second", "--property", "c=d")
    demo.run("volume", "snapshot", "unset", "second", "--property", "a")
    listed, shown, copy = demo.ask_each(
        ("volume", "snapshot", "list", "--long", "--volume", "photographed"),
        ("volume", "snapshot", "show", "second"),
        ("volume", "create", "copy", "--snapshot", "second", "--size", "2"),
    )
    [row] = listed
    assert (row["Name"], row["Status"], row["Size"]) == ("second", "available", 1)
    assert (shown["properties"], shown["description"]) == ({"c": "d"}, "of the morning")
    member.until_volume(copy["id"], "available")
    assert copy["snapshot_id"] == made["id"]
    with pytest.raises(Refused, match=r"available and detached, and has a snapshot. .*; delete"):
        demo.run("volume", "delete", "photographed")
    demo.run("volume", "snapshot", "delete", "second")
    until_gone(member, made["id"])
    demo.run("volume", "delete", "photographed", "copy")


def test_a_volume_is_copied_and_goes_back(demo: Shell, member: Http) -> None:
    volume_id = member.volume("original")
    copy = demo.ask("volume", "create", "twin", "--source", "original")
    assert copy["source_volid"] == volume_id
    member.until_volume(copy["id"], "available")
    made = demo.ask("volume", "snapshot", "create", "before", "--volume", "original")
    until_snapshot(member, made["id"], "available")
    demo.run("--os-volume-api-version", "3.40", "volume", "revert", "before")
    member.until_volume(volume_id, "available")
    demo.run("volume", "snapshot", "delete", "before")
    until_gone(member, made["id"])
    demo.run("volume", "delete", "original", "twin")


def test_a_snapshot_of_a_volume_in_use(demo: Shell, member: Http, guest: str) -> None:
    server_id = member.server("photographer", guest)
    volume_id = member.volume("used")
    member.attach(server_id, volume_id)
    made: list[Any] = []
    # By itself the command asks at 3.65, and leaves out the `force` that 3.65 wants.
    for name, version, force in (("before", "3.66", ()), ("after", "3.60", ("--force",))):
        create = ("--os-volume-api-version", version, "volume", "snapshot", "create", name)
        made.append(demo.ask(*create, "--volume", "used", *force))
        until_snapshot(member, made[-1]["id"], "available")
    # The newest is pulled into the active file, the other has become the base by then.
    demo.run("volume", "snapshot", "delete", "after", "before")
    for snapshot in made:
        until_gone(member, snapshot["id"])
    member.delete_server(server_id)
    member.until_volume(volume_id, "available")
    demo.run("volume", "delete", "used")


def test_the_sdk_takes_snapshots(running_cloud: Cloud, member: Http) -> None:
    sdk: Any = running_cloud.connect("demo")
    assert isinstance(sdk, Connection)
    storage: Any = sdk.block_storage
    volume_id = member.volume("sdk")
    made = storage.create_snapshot(volume_id=volume_id, name="sdk", metadata={"a": "b"})
    storage.wait_for_status(made, "available", failures=["error"], interval=0.1)
    found = storage.find_snapshot("sdk")
    assert (found.id, found.metadata, found.progress) == (made.id, {"a": "b"}, "100%")
    storage.update_snapshot(made, name="renamed")
    assert [one.name for one in storage.snapshots(volume_id=volume_id)] == ["renamed"]
    with pytest.raises(BadRequestException):
        storage.delete_volume(volume_id, ignore_missing=False)
    storage.delete_snapshot(made)
    storage.wait_for_delete(made, interval=0.1)
    storage.delete_volume(volume_id, ignore_missing=False)
    sdk.close()
