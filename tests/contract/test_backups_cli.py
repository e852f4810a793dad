"""Backups of volumes by the stock `openstack` command and by the SDK."""

from __future__ import annotations

import base64
import uuid

import pytest

from tests.contract.clients import VOLUME, Answer, Http, Refused, Shell

pytestmark = pytest.mark.contract


def until_available(member: Http, backup_id: str) -> None:
    def holds(answer: Answer) -> bool:
        return answer.key("backup")["status"] == "available"

    member.until(f"{VOLUME}/backups/{backup_id}", holds)


def test_a_volume_is_backed_up_restored_and_its_backup_deleted(demo: Shell, member: Http) -> None:
    volume_id = member.volume("precious")
    made = demo.ask("volume", "backup", "create", "--name", "nightly", "precious")
    until_available(member, made["id"])
    shown, listed = demo.ask_each(
        ("volume", "backup", "show", "nightly"),
        ("volume", "backup", "list", "--long"),
    )
    assert (shown["id"], shown["volume_id"], shown["status"]) == (
        *(made["id"], volume_id, "available"),
    )
    assert [one["ID"] for one in listed] == [made["id"]]
    member.until_volume(volume_id, "available")
    demo.run("volume", "backup", "restore", "nightly", "precious", "--force")
    until_available(member, made["id"])
    member.until_volume(volume_id, "available")
    again = demo.ask("volume", "backup", "restore", "nightly", "reborn")
    member.until_volume(again["volume_id"], "available")
    until_available(member, made["id"])
    demo.run("volume", "backup", "set", "--name", "weekly", "nightly")
    assert demo.ask("volume", "backup", "show", "weekly")["id"] == made["id"]
    demo.run("volume", "backup", "delete", "weekly")
    demo.run("volume", "delete", volume_id, again["volume_id"])


def test_a_record_is_exported_and_imported_under_another_id(
    demo: Shell, operator: Shell, member: Http, admin: Http
) -> None:
    volume_id = member.volume("recorded")
    made = demo.ask("volume", "backup", "create", "recorded")
    until_available(member, made["id"])
    export = ("volume", "backup", "record", "export")
    with pytest.raises(Refused, match="403"):
        demo.run(*export, made["id"])
    told = operator.ask(*export, made["id"])
    second, content = str(uuid.uuid4()), base64.b64decode(told["backup_url"]).decode()
    renamed = content.replace(f'"id":"{made["id"]}"', f'"id":"{second}"')
    told["backup_url"] = base64.b64encode(renamed.encode()).decode()
    # Not by the command: openstacksdk 4.22 sends a path of its own instead of the record.
    path, body = f"{VOLUME}/backups/import_record", {"backup-record": told}
    assert admin.ask("POST", path, body).key("backup")["id"] == second
    until_available(admin, second)
    demo.run("volume", "backup", "delete", made["id"])
    member.until(f"{VOLUME}/backups/{made['id']}", lambda answer: answer.status == 404)
    again = operator.ask("volume", "backup", "restore", second, "recorded-again")
    admin.until_volume(again["volume_id"], "available")
    until_available(admin, second)
    operator.run("volume", "backup", "delete", second)
    operator.run("volume", "delete", again["volume_id"])
    member.until_volume(volume_id, "available")
    demo.run("volume", "delete", volume_id)


def test_a_snapshot_is_backed_up(demo: Shell, member: Http) -> None:
    volume_id = member.volume("pictured")
    snapshot = demo.ask("volume", "snapshot", "create", "--volume", "pictured", "moment")
    member.until(
        f"{VOLUME}/snapshots/{snapshot['id']}",
        lambda answer: answer.key("snapshot")["status"] == "available",
    )
    made = demo.ask("volume", "backup", "create", "--snapshot", "moment", "pictured")
    until_available(member, made["id"])
    assert demo.ask("volume", "backup", "show", made["id"])["snapshot_id"] == snapshot["id"]
    demo.run("volume", "backup", "delete", made["id"])
    demo.run("volume", "snapshot", "delete", "moment")
    member.until(f"{VOLUME}/snapshots/{snapshot['id']}", lambda answer: answer.status == 404)
    demo.run("volume", "delete", volume_id)


def test_an_incremental_one_builds_on_a_full_one(demo: Shell, member: Http) -> None:
    volume_id = member.volume("whole")
    create = ("volume", "backup", "create", "--incremental")
    with pytest.raises(Refused, match="No backups available"):
        demo.run(*create, "whole")
    full = demo.ask("volume", "backup", "create", "whole")
    until_available(member, full["id"])
    member.until_volume(volume_id, "available")
    # Forced or not: nobody has the volume.
    later = demo.ask(*create, "--force", "--name", "later", "whole")
    until_available(member, later["id"])
    shown = demo.ask("volume", "backup", "show", full["id"])
    assert (shown["is_incremental"], shown["has_dependent_backups"]) == (False, True)
    assert demo.ask("volume", "backup", "show", "later")["is_incremental"]
    with pytest.raises(Refused, match="Incremental backups exist"):
        demo.run("volume", "backup", "delete", full["id"])
    demo.run("volume", "backup", "delete", "later")
    member.until(f"{VOLUME}/backups/{later['id']}", lambda answer: answer.status == 404)
    demo.run("volume", "backup", "delete", full["id"])
    member.until_volume(volume_id, "available")
    demo.run("volume", "delete", volume_id)
