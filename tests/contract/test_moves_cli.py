"""Servers that move while they run, by the stock `openstack` command, between simulated hosts."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.contract.clients import COMPUTE, Cloud, Refused
from tests.kill.move_workload import HELD

pytestmark = pytest.mark.contract
SMALL = ("--flavor", "m1.nano", "--no-network")
MIGRATE, MIGRATION = ("server", "migrate", "--live-migration"), ("server", "migration")
HOST = "OS-EXT-SRV-ATTR:host"


@contextmanager
def two_hosts(directory: Path, kill_at: str = "") -> Generator[tuple[Cloud, str]]:
    """A cloud of two hosts, and the id of a server in it that boots from a volume."""
    cloud = Cloud(directory / "state", directory / "log", hosts=2, kill_at=kill_at)
    try:
        cloud.http("demo").image("guest")
        root = ("--image", "guest", "--boot-from-volume", "1")
        made = cloud.shell("demo").ask("server", "create", "moving", *root, *SMALL, "--wait")
        yield cloud, made["id"]
    finally:
        cloud.stop()


def test_a_server_moves_and_moves_back(tmp_path: Path) -> None:
    with two_hosts(tmp_path) as (cloud, server):
        operator = cloud.shell("mooring")
        source = operator.ask("server", "show", server)[HOST]
        assert "Complete" in operator.run(*MIGRATE, "--wait", server)
        destination = operator.ask("server", "show", server)[HOST]
        assert destination != source
        with pytest.raises(Refused, match="runs there already"):
            operator.run(*MIGRATE, "--host", destination, server)
        assert "Complete" in operator.run(*MIGRATE, "--host", source, "--wait", server)
        assert operator.ask("server", "show", server)[HOST] == source
        listed = operator.ask(*MIGRATION, "list", "--server", server)
        assert [(row["Source Compute"], row["Dest Compute"]) for row in listed] == [
            (destination, source),
            (source, destination),
        ]
        assert {(row["Type"], row["Status"]) for row in listed} == {("live-migration", "completed")}
        with pytest.raises(Refused, match="is completed"):
            operator.run(*MIGRATION, "abort", server, str(listed[0]["Id"]))
        demo = cloud.shell("demo")
        with pytest.raises(Refused, match="Policy"):
            demo.run(*MIGRATE, server)
        events = demo.ask("server", "event", "list", server)
        assert [event["Action"] for event in events] == ["live-migration"] * 2 + ["create"]


def test_a_move_that_lasts_is_shown_forced_and_aborted(tmp_path: Path) -> None:
    with two_hosts(tmp_path, HELD) as (cloud, server):
        operator, admin = cloud.shell("mooring"), cloud.http("admin")
        operator.run(*MIGRATE, server)
        path = f"{COMPUTE}/servers/{server}/migrations"
        got = admin.until(path, lambda answer: _is_running(answer.body), version="2.90")
        [found] = got.key("migrations")
        move = str(found["id"])
        # By its number the command asks for it with the two ids in each other's place.
        shown = operator.ask(*MIGRATION, "show", server, found["uuid"])
        assert (shown["Status"], shown["Server UUID"]) == ("running", server)
        by_number = admin.ask("GET", f"{path}/{move}", version="2.90").key("migration")
        assert by_number["uuid"] == found["uuid"]
        operator.run(*MIGRATION, "force", "complete", server, move)
        operator.run(*MIGRATION, "abort", server, move)
        events = operator.ask("server", "event", "list", server)
        assert {event["Action"] for event in events} == {
            *("create", "live-migration"),
            *("live_migration_force_complete", "live_migration_cancel"),
        }


def _is_running(body: dict[str, Any]) -> bool:
    return [one["status"] for one in body["migrations"]] == ["running"]
