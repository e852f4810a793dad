"""What is asked of moves and cannot be: each is refused, with the right code, and nothing moves."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.compute.cloud import ComputeCloud
from tests.compute.elsewhere import events, refuse
from tests.compute.moving import LIVE, Moving, begun, moving_server, server_that_moves
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
HOSTS = ("host1", "host2")
FAR = ("99999999999999999999", "9" * 5000, "0", "-1", "1.0", "x", "%20", "%C2%B2")
"""Numbers of moves that nobody ever gave."""
FORCE = {"force_complete": None}
ASKED = (("GET", "", None), ("DELETE", "", None), ("POST", "/action", FORCE))
"""What may be asked of one move: method, the path's end, body."""


@pytest.fixture
async def moving(keeper: Keeper) -> AsyncGenerator[Moving]:
    async with moving_server(keeper, hosts=HOSTS, volumes=1) as made:
        yield made


async def test_a_number_that_no_move_has_is_not_found(moving: Moving) -> None:
    settling = await begun(moving)
    (shown,) = await moving.under_way()
    for move in FAR:
        path = f"/servers/{moving.server_id}/migrations/{move}"
        for method, suffix, body in ASKED:
            answer = await moving.cloud.ask(method, path + suffix, body, user="admin")
            assert answer.status == 404, (method, move, answer.text)
    assert (await moving.ask_of("DELETE", shown["id"])).status == 202
    await settling


async def test_a_move_is_asked_by_its_number_or_its_uuid(moving: Moving) -> None:
    other = await server_that_moves(moving.cloud, volumes=1)
    settling = await begun(moving)
    (shown,) = await moving.under_way()
    assert (await moving.ask_of("GET", shown["uuid"])).body["migration"] == shown
    assert (await other.ask_of("DELETE", shown["uuid"])).status == 404
    assert (await moving.ask_of("DELETE", shown["uuid"])).status == 202
    await settling
    (ended,) = await moving.migrations()
    assert ended["status"] == "cancelled"


async def test_a_move_of_another_server_is_not_found(moving: Moving) -> None:
    other = await server_that_moves(moving.cloud, volumes=1)
    settling = await begun(moving)
    (shown,) = await moving.under_way()
    assert (await other.ask_of("GET", shown["id"])).status == 404
    assert (await other.ask_of("DELETE", shown["id"])).status == 404
    assert (await moving.ask_of("DELETE", shown["id"])).status == 202
    await settling


@pytest.mark.parametrize(
    ("version", "value"),
    [
        ("2.1", {"host": None, "block_migration": False}),
        ("2.24", {"host": None, "block_migration": "auto", "disk_over_commit": False}),
        ("2.25", {"host": None, "block_migration": False, "disk_over_commit": False}),
        ("2.29", {"host": None, "block_migration": False, "force": False}),
        ("2.30", {"host": None, "block_migration": False, "force": True}),
        ("2.68", {"host": "host2", "block_migration": False, "force": False}),
        ("2.90", {"host": None}),
        ("2.90", {"block_migration": False}),
        ("2.90", {"host": "", "block_migration": False}),
        ("2.90", {"host": "h" * 256, "block_migration": False}),
        ("2.90", {"host": 1, "block_migration": False}),
        ("2.90", {"host": None, "block_migration": "sometimes"}),
        ("2.90", {"host": None, "block_migration": None}),
        ("2.90", {"host": None, "block_migration": False, "more": 1}),
        ("2.90", None),
        ("2.90", []),
    ],
)
async def test_a_body_that_its_version_does_not_know_is_refused(
    moving: Moving, version: str, value: Any
) -> None:
    """facts/compute.md 1.5."""
    assert (
        await moving.cloud.act(moving.server_id, LIVE, value, user="admin", version=version) == 400
    )
    assert await moving.migrations() == []


@pytest.mark.parametrize(
    ("version", "value"),
    [
        ("2.1", {"host": None, "block_migration": False, "disk_over_commit": False}),
        ("2.24", {"host": None, "block_migration": "False", "disk_over_commit": "True"}),
        ("2.25", {"host": None, "block_migration": "auto"}),
        ("2.30", {"host": "host2", "block_migration": False, "force": True}),
        ("2.67", {"host": None, "block_migration": "auto", "force": False}),
        ("2.68", {"host": None, "block_migration": "auto"}),
    ],
)
async def test_each_version_moves_by_its_own_body(keeper: Keeper, version: str, value: Any) -> None:
    async with moving_server(keeper, hosts=HOSTS, volumes=1) as moving:
        cloud = moving.cloud
        if value["host"]:
            value = {**value, "host": moving.destination}
        assert await cloud.act(moving.server_id, LIVE, value, user="admin", version=version) == 202
        await cloud.settle()
        assert (await moving.status(), await moving.host()) == ("completed", moving.destination)


async def test_a_page_of_moves_is_asked_for_only_where_there_are_pages(moving: Moving) -> None:
    """facts/compute.md 11.4: limit and marker from 2.59 on, before it any key is ignored."""
    for _ in range(3):
        await moving.move()
    ask = moving.cloud.ask
    for query in ("limit=1", "limit=x", "marker=x", "changes-since=x", "user_id=x", "more=1"):
        answer = await ask("GET", f"/os-migrations?{query}", user="admin", version="2.58")
        assert (answer.status, len(answer.body["migrations"])) == (200, 3), query
    for key in ("limit", "marker", "changes-since", "changes-before", "user_id", "more"):
        answer = await ask("GET", f"/os-migrations?{key}=x", user="admin", version="2.65")
        assert answer.status == 400, key
    listed = [one["uuid"] for one in await moving.migrations()]
    found: list[str] = []
    path = "/os-migrations?limit=1"
    while path:
        answer = await ask("GET", path, user="admin", version="2.59")
        found += [one["uuid"] for one in answer.body["migrations"]]
        links = answer.body.get("migrations_links", [])
        path = links[0]["href"].partition("/compute/v2.1")[2] if links else ""
    assert found == listed


@pytest.mark.parametrize(
    ("hidden", "found"),
    [("False", 1), ("0", 1), ("True", 0), ("1", 0)],
)
@pytest.mark.parametrize("version", ["2.1", "2.100"])
async def test_no_move_is_hidden(moving: Moving, hidden: str, found: int, version: str) -> None:
    """`hidden` is a filter upstream, too, whose moves are hidden as little (facts/compute.md 11.4).

    So who asks for hidden ones finds none, and who asks for the others finds all.
    """
    await moving.move()
    path = f"/os-migrations?hidden={hidden}"
    answer = await moving.cloud.ask("GET", path, user="admin", version=version)
    assert (answer.status, len(answer.body["migrations"])) == (200, found)


async def test_hidden_is_true_or_false(moving: Moving) -> None:
    answer = await moving.cloud.ask("GET", "/os-migrations?hidden=perhaps", user="admin")
    assert answer.status == 400


async def test_moves_are_found_by_what_they_are(moving: Moving) -> None:
    await moving.move()
    uuid = (await moving.migrations())[0]["uuid"]
    fits = {
        "host": moving.destination,
        "source_compute": moving.source,
        "instance_uuid": moving.server_id,
        "migration_type": "live-migration",
        "status": "completed",
        "hidden": "False",
        "user_id": (await moving.migrations())[0]["user_id"],
        "project_id": moving.cloud.project_id,
        "changes-since": "2000-01-01T00:00:00Z",
        "changes-before": "2999-01-01T00:00:00Z",
    }
    for key, value in fits.items():
        assert [one["uuid"] for one in await moving.migrations(**{key: value})] == [uuid], key
    others = {**dict.fromkeys(fits, "other"), "changes-since": fits["changes-before"]}
    others["changes-before"] = fits["changes-since"]
    del others["hidden"]
    for key, value in others.items():
        assert await moving.migrations(**{key: value}) == [], key


@pytest.mark.parametrize(
    ("version", "more"),
    [
        ("2.1", set[str]()),
        ("2.22", set[str]()),
        ("2.23", {"migration_type", "links"}),
        ("2.58", {"migration_type", "links"}),
        ("2.59", {"migration_type", "links", "uuid"}),
        ("2.79", {"migration_type", "links", "uuid"}),
        ("2.80", {"migration_type", "links", "uuid", "user_id", "project_id"}),
        ("2.104", {"migration_type", "links", "uuid", "user_id", "project_id"}),
    ],
)
async def test_each_version_shows_moves_in_its_own_words(
    moving: Moving, version: str, more: set[str]
) -> None:
    """facts/compute.md 11.4."""
    settling = await begun(moving)
    answer = await moving.cloud.ask("GET", "/os-migrations", user="admin", version=version)
    (one,) = answer.body["migrations"]
    plain = {"id", "source_compute", "source_node", "dest_compute", "dest_node", "dest_host"}
    plain |= {"status", "instance_uuid", "old_instance_type_id", "new_instance_type_id"}
    assert set(one) == plain | {"created_at", "updated_at"} | more
    path = f"/servers/{moving.server_id}/migrations"
    listed = await moving.cloud.ask("GET", path, user="admin", version=version)
    if "migration_type" not in more:
        assert listed.status == 404
    else:
        (shown,) = listed.body["migrations"]
        newer = more - {"migration_type", "links"}
        parts = ("total", "processed", "remaining")
        sizes = {f"{what}_{part}_bytes" for what in ("memory", "disk") for part in parts}
        plain -= {"instance_uuid", "old_instance_type_id", "new_instance_type_id"}
        assert set(shown) == plain | sizes | {"server_uuid", "created_at", "updated_at"} | newer
    assert (await moving.ask_of("DELETE", one["id"])).status == 202
    await settling


async def test_a_flavor_without_a_number_has_none_in_the_list_of_moves(tmp_path: Path) -> None:
    """Clients take a number or null there, and no text (facts/compute.md 11.4)."""
    async with ComputeCloud(tmp_path, hosts=HOSTS) as cloud:
        flavor = {"id": "slim", "name": "slim", "ram": 64, "vcpus": 1, "disk": 0}
        made = await cloud.ask("POST", "/flavors", {"flavor": flavor}, user="admin")
        assert made.status == 200
        moving = await server_that_moves(cloud, volumes=1, flavor="slim")
        await moving.move()
        (shown,) = await moving.migrations()
        assert (shown["old_instance_type_id"], shown["new_instance_type_id"]) == (None, None)


async def test_asking_something_of_a_move_begins_with_its_own_version(moving: Moving) -> None:
    settling = await begun(moving)
    (shown,) = await moving.under_way()
    path, ask = f"/servers/{moving.server_id}/migrations/{shown['id']}", moving.cloud.ask
    assert (await ask("DELETE", path, user="admin", version="2.23")).status == 404
    answer = await ask("POST", f"{path}/action", FORCE, user="admin", version="2.21")
    assert answer.status == 404
    for body in ({}, {"abort": None}, {"force_complete": None, "x": 1}):
        answer = await ask("POST", f"{path}/action", body, user="admin")
        assert answer.status == 400, body
    for method, suffix, body in ASKED:
        answer = await ask(method, path + suffix, body)
        assert answer.status == 403, method
    assert (await ask("DELETE", path, user="admin", version="2.24")).status == 202
    await settling


async def test_a_locked_server_is_neither_moved_nor_asked_to_stay_by_its_project(
    moving: Moving,
) -> None:
    """facts/compute.md 1.3: the lock binds everybody but administrators."""
    act = moving.cloud.act
    assert await act(moving.server_id, "lock", user="admin") == 202
    value = {"host": None, "block_migration": False}
    assert await act(moving.server_id, LIVE, value, user="manager", version="2.90") == 409
    settling = await begun(moving)
    (shown,) = await moving.under_way()
    path = f"/servers/{moving.server_id}/migrations/{shown['id']}"
    assert (await moving.cloud.ask("DELETE", path, user="manager")).status == 409
    answer = await moving.cloud.ask("POST", f"{path}/action", FORCE, user="manager")
    assert answer.status == 409
    assert (await moving.ask_of("DELETE", shown["id"])).status == 202
    await settling
    await moving.stays_whole()


async def test_a_guest_that_is_not_sent_yet_can_be_forced_to_its_end(moving: Moving) -> None:
    """Its host refuses to hold still what does not move yet; the move goes on all the same."""
    knobs = moving.cloud.hypervisor(moving.source).knobs
    knobs.hold("send")
    knobs.hold("send_memory")
    assert await moving.migrate() == 202
    await moving.cloud.compute.sagas.settle(0.0)
    (shown,) = await moving.under_way()
    assert shown["status"] == "running"
    assert (await moving.ask_of("POST", shown["id"], FORCE, suffix="/action")).status == 202
    await moving.cloud.compute.sagas.settle(2.0)
    knobs.release("send")
    await moving.cloud.settle()
    assert (await moving.status(), await moving.host()) == ("completed", moving.destination)


@pytest.mark.parametrize("side", ["source", "destination"])
async def test_a_host_that_a_server_comes_from_or_goes_to_is_not_removed(
    moving: Moving, side: str
) -> None:
    """facts/compute.md 12.2: 409 when migrations are in progress."""
    cloud, name = moving.cloud, getattr(moving, side)
    settling = await begun(moving)
    listed = await cloud.ask("GET", f"/os-services?host={name}", user="admin")
    path = f"/os-services/{listed.body['services'][0]['id']}"
    forced = await cloud.ask("PUT", path, {"forced_down": True}, user="admin")
    assert forced.status == 200
    answer = await cloud.ask("DELETE", path, user="admin")
    assert answer.status == 409, answer.text
    await cloud.ask("PUT", path, {"forced_down": False}, user="admin")
    (shown,) = await moving.under_way()
    await moving.ask_of("DELETE", shown["id"])
    await settling


@pytest.mark.parametrize("side", ["source", "destination"])
async def test_hosts_of_which_one_encrypts_exchange_no_guest_and_nothing_is_begun(
    moving: Moving, side: str
) -> None:
    cloud = moving.cloud
    await cloud.change_host(getattr(moving, side), move_tls=True)
    asked = refuse(cloud, cloud.hosts, ".*")
    await moving.move()
    assert asked == []
    assert await moving.status() == "error"
    await moving.stays_whole()
    here, there = ("only over TLS", "in the clear")[:: 1 if side == "source" else -1]
    [*_, (_, _, told)] = await events(cloud, moving.server_id)
    assert f"{moving.source} sends running guests {here}, and host {moving.destination}" in str(
        told
    )
    assert f"takes them {there}." in str(told)
    assert "move_tls" in str(told)
