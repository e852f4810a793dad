"""The table of verbs: what it promises to clients, agents and debts."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.agent.host import handlers
from mooring.agent.serving import build_app
from mooring.agent_api import verbs
from mooring.errors import Bug
from tests.agent.hosts import new_id, open_host, operation

pytestmark = pytest.mark.anyio
UNDOS = sorted({verb.undone_by for verb in verbs.VERBS.values()} - {""})


@pytest.mark.parametrize("name", sorted(verbs.VERBS))
def test_a_verb_is_found_by_its_own_path(name: str) -> None:
    verb = verbs.VERBS[name]
    ids = [new_id() for _ in range(verb.path.count("{"))]
    found = verbs.find(verb.method, verb.target(*ids))
    assert found is not None
    assert (found[0].name, list(found[1].values())) == (name, ids)


@pytest.mark.parametrize("name", UNDOS)
def test_a_verb_is_undone_where_it_was_done(name: str) -> None:
    undo = verbs.VERBS[name]
    done = [verb for verb in verbs.VERBS.values() if verb.undone_by == name]
    assert undo.method == "DELETE"
    assert [(verb.method, verb.path) for verb in done] == [("PUT", undo.path)]


def test_what_is_put_and_has_no_undo_is_known() -> None:
    left = [verb.name for verb in verbs.VERBS.values() if verb.method == "PUT"]
    assert [name for name in left if not verbs.VERBS[name].undone_by] == [
        "put_certificate",
        "put_move_certificates",
        "set_power",
        "hasten_departure",
        "switch_disk",
        "adopt_copy",
        "record_merge",
    ]


def test_ids_cannot_leave_their_place_in_a_path() -> None:
    target = verbs.SHOW_SERVER.target("../x?y")
    assert target == "/servers/..%2Fx%3Fy"
    assert verbs.find("GET", target) is None
    assert verbs.READ_CONSOLE.target("s1", length=3) == "/servers/s1/console?length=3"
    assert verbs.READ_CONSOLE.target("s1", length="") == "/servers/s1/console"


@pytest.mark.parametrize("name", UNDOS)
async def test_a_host_pays_whatever_may_be_owed(name: str, tmp_path: Path) -> None:
    verb = verbs.VERBS[name]
    ids = [new_id() for _ in range(verb.path.count("{"))]
    words = {
        "take_back_snapshot": {"new_file": "overlay"},
        "unplug_disk": {"attachment_id": new_id()},
    }
    target, named = verb.target(*ids, **words.get(name, {})), operation()
    async with open_host(tmp_path) as (host, running):
        for _ in range(2):
            await host.client.pay(target, operation=named)
        late = await running.agent.journal.unfinished()
        assert late == []


async def test_what_is_owed_with_its_attachment_is_disconnected(tmp_path: Path) -> None:
    async with open_host(tmp_path) as (host, _):
        server_id, disk = new_id(), await host.make_disk()
        await host.boot(server_id, [disk])
        target = verbs.UNPLUG_DISK.target(
            server_id, disk.volume_id, attachment_id=disk.attachment_id
        )
        await host.client.pay(target, operation=operation())
        left = await host.client.inventory()
        assert (left.guests[0].disks, left.connections) == ([], [])


async def test_a_debt_that_is_no_undo_is_a_bug(tmp_path: Path) -> None:
    async with open_host(tmp_path) as (host, _):
        for target in ("/nothing/x", "/servers/x/power", "/servers"):
            with pytest.raises(Bug, match="Nothing is undone"):
                await host.client.pay(target, operation=operation())


async def test_an_agent_that_lacks_a_handler_does_not_start(tmp_path: Path) -> None:
    async with open_host(tmp_path) as (_, running):
        with pytest.raises(Bug, match=r"Nothing answers the verbs .*plug_disk"):
            build_app(running.agent, handlers)
