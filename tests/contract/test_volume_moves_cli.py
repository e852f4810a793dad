"""Volumes that get another pool and another type, by the stock `openstack` command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.clients import Cloud, Http, Refused, Shell

pytestmark = pytest.mark.contract
HOST, STATUS, HOSTS = "os-vol-host-attr:host", "os-vol-mig-status-attr:migstat", 2


def pools(operator: Shell) -> list[str]:
    listed = operator.ask("volume", "backend", "pool", "list")
    return sorted(one["Name"] for one in listed)


def test_a_volume_goes_to_the_pool_of_another_host(tmp_path: Path) -> None:
    cloud = Cloud(tmp_path / "state", tmp_path / "log", hosts=HOSTS)
    try:
        member, operator = cloud.http("demo"), cloud.shell("mooring")
        volume_id = member.volume("moving")
        there = operator.ask("volume", "show", volume_id)[HOST]
        [target] = [name for name in pools(operator) if name != there]
        operator.run("volume", "migrate", "--host", target, "--lock-volume", volume_id)
        member.until_volume(volume_id, "available")
        shown = operator.ask("volume", "show", volume_id)
        assert (shown[HOST], shown[STATUS]) == (target, "success")
        with pytest.raises(Refused, match="must be different"):
            operator.run("volume", "migrate", "--host", target, volume_id)
    finally:
        cloud.stop()


def test_a_volume_gets_another_type(demo: Shell, operator: Shell, member: Http) -> None:
    volume_id = member.volume("typed")
    operator.run("volume", "type", "create", "silver")
    operator.run("volume", "type", "create", "lost", "--property", "volume_backend_name=nowhere")
    demo.run("volume", "set", "--type", "silver", volume_id)
    assert demo.ask("volume", "show", volume_id)["type"] == "silver"
    lost = ("volume", "set", "--type", "lost")
    for words in ((), ("--retype-policy", "on-demand")):
        with pytest.raises(Refused):
            demo.run(*lost, *words, volume_id)
    assert demo.ask("volume", "show", volume_id)["type"] == "silver"
    member.delete_volume(volume_id)
    operator.run("volume", "type", "delete", "lost", "silver")
