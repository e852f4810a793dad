from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update

from mooring.share.tables import TypeRow
from tests.callers import PROJECT
from tests.share.cloud import UNKNOWN, ShareCloud

pytestmark = pytest.mark.anyio
SPECS = {"driver_handles_share_servers": False, "snapshot_support": "False"}


async def make_type(cloud: ShareCloud, name: str = "gold", **fields: Any) -> Any:
    body = {"share_type": {"name": name, "extra_specs": SPECS, **fields}}
    return await cloud.ask("POST", "/types", body, user="admin")


async def test_a_type_is_made_shown_and_deleted(cloud: ShareCloud) -> None:
    made = (await make_type(cloud, description="good")).key("share_type")
    assert made["required_extra_specs"] == {"driver_handles_share_servers": "False"}
    assert (made["description"], made["is_default"]) == ("good", False)
    path = f"/types/{made['id']}"
    seen = (await cloud.ask("GET", path)).body
    assert seen["share_type"] == seen["volume_type"]
    assert seen["share_type"]["extra_specs"]["revert_to_snapshot_support"] is False
    assert (await cloud.ask("GET", "/types/default")).key("share_type")["name"] == "__DEFAULT__"
    body = {"share_type": {"name": "silver", "share_type_access:is_public": False}}
    changed = await cloud.ask("PUT", path, body, user="admin")
    assert changed.key("share_type")["name"] == "silver"
    assert (await cloud.ask("GET", path)).status == 404
    assert (await cloud.ask("DELETE", path, user="admin")).status == 202
    assert (await cloud.ask("DELETE", path, user="admin")).status == 404


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"extra_specs": {}}, 400),
        ({"extra_specs": {"driver_handles_share_servers": True}}, 400),
        ({"name": "default"}, 400),
        ({"name": " "}, 400),
        ({"name": "__DEFAULT__"}, 409),
    ],
)
async def test_bad_types_are_refused(cloud: ShareCloud, wrong: dict[str, Any], status: int) -> None:
    assert (await make_type(cloud, **wrong)).status == status
    assert len((await cloud.ask("GET", "/types")).key("share_types")) == 1


async def test_what_a_type_asks_decides_where_a_share_lies_and_what_it_can(
    cloud: ShareCloud,
) -> None:
    await make_type(cloud)
    share_id = await cloud.make(share_type="gold")
    shown = await cloud.show(share_id)
    assert (shown["snapshot_support"], shown["share_type_name"]) == (False, "gold")
    assert (await cloud.show(await cloud.make()))["snapshot_support"] is True
    await make_type(cloud, "far", extra_specs={**SPECS, "share_backend_name": "other"})
    lost = await cloud.make(share_type="far")
    assert await cloud.status(lost) == "error"
    [told] = await cloud.messages(lost)
    assert "1 without what the share type asks for" in told["user_message"]
    sized = {**SPECS, "provisioning:min_share_size": "3", "provisioning:max_share_size": "4"}
    await make_type(cloud, "sized", extra_specs=sized)
    for size in (2, 5):
        body = {"share": {"size": size, "share_proto": "NFS", "share_type": "sized"}}
        assert (await cloud.ask("POST", "/shares", body)).status == 400


async def test_extra_specs_change_but_not_the_one_that_every_type_has(cloud: ShareCloud) -> None:
    made = (await make_type(cloud)).key("share_type")
    path = f"/types/{made['id']}/extra_specs"
    added = await cloud.ask("POST", path, {"extra_specs": {"a": "1"}}, user="admin")
    assert added.key("extra_specs") == {"a": "1"}
    assert (await cloud.ask("GET", f"{path}/a", user="admin")).body == {"a": "1"}
    assert (await cloud.ask("PUT", f"{path}/a", {"a": "2"}, user="admin")).status == 200
    assert (await cloud.ask("PUT", f"{path}/a", {"b": "2"}, user="admin")).status == 400
    assert (await cloud.ask("DELETE", f"{path}/a", user="admin")).status == 202
    assert (await cloud.ask("DELETE", f"{path}/a", user="admin")).status == 404
    required = f"{path}/driver_handles_share_servers"
    assert (await cloud.ask("DELETE", required, user="admin")).status == 403
    wrong = {"extra_specs": {"driver_handles_share_servers": "True"}}
    assert (await cloud.ask("POST", path, wrong, user="admin")).status == 400
    assert (await cloud.ask("GET", path)).status == 403


async def test_a_private_type_is_for_the_projects_that_it_names(cloud: ShareCloud) -> None:
    private: dict[str, Any] = {"share_type_access:is_public": False}
    made = (await make_type(cloud, **private)).key("share_type")
    path, mine = f"/types/{made['id']}", {"project": PROJECT}
    assert (await cloud.ask("GET", path)).status == 404
    act = f"{path}/action"
    assert (await cloud.ask("POST", act, {"addProjectAccess": mine}, user="admin")).status == 202
    assert (await cloud.ask("POST", act, {"addProjectAccess": mine}, user="admin")).status == 409
    assert (await cloud.ask("GET", path)).status == 200
    listed = await cloud.ask("GET", f"{path}/share_type_access", user="admin")
    assert listed.key("share_type_access") == [{"share_type_id": made["id"], "project_id": PROJECT}]
    every = await cloud.ask("GET", "/types?is_public=all", user="admin")
    assert len(every.key("share_types")) == 2
    removed = await cloud.ask("POST", act, {"removeProjectAccess": mine}, user="admin")
    assert removed.status == 202
    removed = await cloud.ask("POST", act, {"removeProjectAccess": mine}, user="admin")
    assert removed.status == 404


async def test_an_administrator_is_shown_the_types_that_its_project_may_use(
    cloud: ShareCloud,
) -> None:
    private: dict[str, Any] = {"share_type_access:is_public": False}
    made = (await make_type(cloud, **private)).key("share_type")

    async def names(query: str = "", user: str = "admin") -> list[str]:
        listed = (await cloud.ask("GET", f"/types{query}", user=user)).key("share_types")
        return [each["name"] for each in listed]

    assert await names() == ["__DEFAULT__"]
    assert await names("?is_public=false") == ["gold"]
    mine = {"addProjectAccess": {"project": PROJECT}}
    added = await cloud.ask("POST", f"/types/{made['id']}/action", mine, user="admin")
    assert added.status == 202
    assert sorted(await names()) == ["__DEFAULT__", "gold"]
    assert await names(user="stranger") == ["__DEFAULT__"]


async def test_until_2_23_a_type_says_whether_there_are_snapshots(cloud: ShareCloud) -> None:
    specs = {"driver_handles_share_servers": False, "provisioning:max_share_size": 5}
    body = {"share_type": {"name": "old", "extra_specs": specs}}
    made = await cloud.ask("POST", "/types", body, user="admin", version="2.23")
    assert made.key("share_type")["extra_specs"] == {
        "driver_handles_share_servers": "False",
        "provisioning:max_share_size": "5",
        "snapshot_support": "True",
    }
    path = f"/types/{made.key('share_type')['id']}/extra_specs/snapshot_support"
    for version, status in (("2.23", 403), ("2.24", 202), ("2.24", 404), ("2.23", 403)):
        gone = await cloud.ask("DELETE", path, user="admin", version=version)
        assert gone.status == status


async def test_a_type_is_described_from_2_41_on_and_no_more(cloud: ShareCloud) -> None:
    body = {"share_type": {"name": "old", "extra_specs": SPECS, "description": "good"}}
    assert (await cloud.ask("POST", "/types", body, user="admin", version="2.40")).status == 400
    made = (await cloud.ask("POST", "/types", body, user="admin", version="2.50")).key("share_type")
    plain = {"share_type": {"description": ""}}
    changed = await cloud.ask("PUT", f"/types/{made['id']}", plain, user="admin")
    assert (made["description"], changed.key("share_type")["description"]) == ("good", None)


async def test_extra_specs_have_a_length(cloud: ShareCloud) -> None:
    path = f"/types/{(await make_type(cloud)).key('share_type')['id']}/extra_specs"
    long = {"key": "v" * 256}
    assert (await cloud.ask("POST", path, {"extra_specs": long}, user="admin")).status == 400
    assert (await cloud.ask("PUT", f"{path}/key", long, user="admin")).status == 400
    assert "key" not in (await cloud.ask("GET", path, user="admin")).key("extra_specs")


async def test_a_type_with_shares_stays(cloud: ShareCloud) -> None:
    made = (await make_type(cloud)).key("share_type")
    await cloud.make(share_type=made["id"])
    assert (await cloud.ask("DELETE", f"/types/{made['id']}", user="admin")).status == 400
    [default] = [
        each["id"]
        for each in (await cloud.ask("GET", "/types")).key("share_types")
        if each["is_default"]
    ]
    assert (await cloud.ask("DELETE", f"/types/{default}", user="admin")).status == 400
    assert (await cloud.ask("GET", f"/types/{UNKNOWN}")).status == 404


async def test_the_default_type_keeps_its_name(cloud: ShareCloud) -> None:
    default = (await cloud.ask("GET", "/types/default")).key("share_type")
    path = f"/types/{default['id']}"
    renamed = {"share_type": {"name": "plain", "description": "new"}}
    assert (await cloud.ask("PUT", path, renamed, user="admin")).status == 400
    shown = (await cloud.ask("GET", path, user="admin")).key("share_type")
    assert (shown["name"], shown["description"]) == (default["name"], default["description"])
    kept = {"share_type": {"name": default["name"], "description": "new"}}
    assert (await cloud.ask("PUT", path, kept, user="admin")).status == 200


async def test_a_cloud_whose_default_type_was_renamed_opens(cloud: ShareCloud) -> None:
    """As releases before let an administrator do."""
    left = update(TypeRow).where(TypeRow.name == "__DEFAULT__").values(name="plain")
    await cloud.store.write(lambda tx: tx.execute(left))
    await cloud.restart()
    listed = (await cloud.ask("GET", "/types", user="admin")).key("share_types")
    assert {one["name"] for one in listed} >= {"__DEFAULT__", "plain"}
