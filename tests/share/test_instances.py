from __future__ import annotations

import pytest

from tests.share.cloud import UNKNOWN, ShareCloud

pytestmark = pytest.mark.anyio
_KEYS = {
    *("id", "share_id", "host", "status", "availability_zone", "created_at"),
    *("share_network_id", "share_server_id"),
}


async def test_a_share_has_one_instance_with_its_own_id(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    path = f"/share_instances/{share_id}"
    [listed] = (await cloud.ask("GET", "/share_instances", user="admin")).key("share_instances")
    of_share = await cloud.ask("GET", f"/shares/{share_id}/instances", user="admin")
    shown = (await cloud.ask("GET", path, user="admin")).key("share_instance")
    assert of_share.key("share_instances") == [listed] == [shown]
    assert (shown["id"], shown["share_id"]) == (share_id, share_id)
    assert (shown["host"], shown["status"]) == ("host1@simulated#files", "available")


@pytest.mark.parametrize(
    ("version", "more"),
    [
        ("2.3", {"export_location", "export_locations"}),
        ("2.10", {"access_rules_status"}),
        ("2.30", {"access_rules_status", "replica_state", "share_type_id"}),
    ],
)
async def test_an_instance_is_shown_as_its_version_says(
    cloud: ShareCloud, version: str, more: set[str]
) -> None:
    path = f"/share_instances/{await cloud.make()}"
    shown = (await cloud.ask("GET", path, user="admin", version=version)).key("share_instance")
    added = {"cast_rules_to_readonly"} if version == "2.30" else set[str]()
    assert shown.keys() == _KEYS | more | added


async def test_the_locations_of_an_instance_are_the_share_s(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    path = f"/share_instances/{share_id}/export_locations"
    of_share = await cloud.ask("GET", f"/shares/{share_id}/export_locations", user="admin")
    [location] = (await cloud.ask("GET", path, user="admin")).key("export_locations")
    assert of_share.key("export_locations") == [location]
    one = await cloud.ask("GET", f"{path}/{location['id']}", user="admin")
    alone = one.key("export_location")
    assert alone["path"] == location["path"]
    # Stock clients read both as times.
    assert alone["updated_at"] == alone["created_at"]
    assert (await cloud.ask("GET", f"{path}/{UNKNOWN}", user="admin")).status == 404
    by_path = f"/share_instances?export_location_path={location['path']}"
    assert len((await cloud.ask("GET", by_path, user="admin")).key("share_instances")) == 1
    other = await cloud.ask("GET", "/share_instances?export_location_path=x", user="admin")
    assert other.key("share_instances") == []


async def test_what_is_done_to_an_instance_is_done_to_its_share(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    path = f"/share_instances/{share_id}/action"
    for status, code in (("creating", 400), ("fake", 400), ("error", 202)):
        body = {"reset_status": {"status": status}}
        assert (await cloud.ask("POST", path, body, user="admin")).status == code
    await cloud.settle()
    assert await cloud.status(share_id) == "error"
    gone = await cloud.ask("POST", path, {"os-force_delete": None}, user="admin", version="2.6")
    assert gone.status == 202
    await cloud.settle()
    shown = await cloud.ask("GET", f"/share_instances/{share_id}", user="admin")
    assert shown.status == 404


async def test_instances_are_the_operator_s(cloud: ShareCloud) -> None:
    share_id = await cloud.make()
    path = f"/share_instances/{share_id}"
    for where in ("/share_instances", path, f"{path}/export_locations"):
        assert (await cloud.ask("GET", where)).status == 403
    for action in ({"reset_status": {"status": "error"}}, {"force_delete": None}):
        assert (await cloud.ask("POST", f"{path}/action", action)).status == 403
    for query in ("host=host1", "share_server_id=x"):
        assert (await cloud.ask("GET", f"/shares?{query}")).status == 403
