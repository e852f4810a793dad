"""Growing volumes with the stock command and openstacksdk, also under a running guest."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from openstack.exceptions import BadRequestException, ForbiddenException

from tests.contract.clients import VOLUME, Cloud, Http, Refused, Shell

# The SDK announces what it will drop when its own code, and not its caller, still uses it.
pytestmark = [
    pytest.mark.contract,
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The field '.*' has been deprecated"),
]
UNTOLD = "!compute.extend_volume/complete_extend/forward/before"
"""What keeps compute from completing what it has let grow."""


def until_size(http: Http, volume_id: str, status: str, size_gib: int) -> None:
    """Wait until a volume has a status and a size."""

    def holds(got: Any) -> bool:
        volume = got.key("volume")
        assert not volume["status"].startswith("error"), volume
        return (volume["status"], volume["size"]) == (status, size_gib)

    http.until(f"{VOLUME}/volumes/{volume_id}", holds)


def test_the_command_grows_free_and_attached_volumes(demo: Shell, member: Http, guest: str) -> None:
    server, free, held = (
        member.server("grows", guest),
        member.volume("loose"),
        member.volume("tied"),
    )
    member.attach(server, held)
    demo.run("volume", "set", "--size", "2", "loose")
    until_size(member, free, "available", 2)
    with pytest.raises(Refused, match=r"in.use|available|3\.42"):
        demo.run("--os-volume-api-version", "3.41", "volume", "set", "--size", "2", "tied")
    demo.run("--os-volume-api-version", "3.42", "volume", "set", "--size", "3", "tied")
    until_size(member, held, "in-use", 3)
    with pytest.raises(Refused, match="New size must be greater than 2 GB"):
        demo.run("volume", "set", "--size", "1", "loose")
    member.delete_server(server)
    member.until_volume(held, "available")
    for volume in (free, held):
        member.delete_volume(volume)


def test_the_sdk_grows_an_attached_volume(running_cloud: Cloud, member: Http, guest: str) -> None:
    server, held = member.server("swells", guest), member.volume("swelling")
    member.attach(server, held)
    sdk: Any = running_cloud.connect("demo")
    sdk.block_storage.extend_volume(held, 2)
    until_size(member, held, "in-use", 2)
    with pytest.raises(ForbiddenException):
        sdk.block_storage.complete_volume_extend(held, error=False)
    sdk.close()
    member.delete_server(server)
    member.until_volume(held, "available")
    member.delete_volume(held)


@pytest.fixture
def untold(tmp_path: Path) -> Generator[Cloud]:
    """A cloud whose compute service lets disks grow and completes nothing."""
    cloud = Cloud(tmp_path / "state", tmp_path / "log", kill_at=UNTOLD)
    try:
        yield cloud
    finally:
        cloud.stop()


def test_the_sdk_completes_an_extend_as_the_service_user(untold: Cloud) -> None:
    member = untold.http("demo")
    server, held = member.server("waits", member.image("guest")), member.volume("waiting")
    member.attach(server, held)
    sdk: Any = untold.connect_service("compute")
    with pytest.raises(BadRequestException, match="does not wait for the completion"):
        sdk.block_storage.complete_volume_extend(held, error=False)
    path, body = f"{VOLUME}/volumes/{held}", {"os-extend": {"new_size": 2}}
    assert member.ask("POST", f"{path}/action", body, version="3.71").status == 202
    member.until(path, lambda got: got.key("volume")["metadata"].get("extend_new_size") == "2")
    until_event_failed(member, server)
    assert sdk.block_storage.get_volume(held).status == "extending"
    sdk.block_storage.complete_volume_extend(held, error=False)
    until_size(member, held, "in-use", 2)
    assert untold.http("admin").ask("GET", "/mooring/doctor").body == {"findings": []}
    sdk.close()


def until_event_failed(member: Http, server_id: str) -> None:
    """Wait until compute has done what it does in this cloud: all but the completion."""
    path = f"/compute/v2.1/servers/{server_id}/os-instance-actions"

    def holds(got: Any) -> bool:
        found = [one for one in got.key("instanceActions") if one["action"] == "extend_volume"]
        return any((one["message"] or "").startswith("Error") for one in found)

    member.until(path, holds)
