"""Which pools a volume type's extra specs are met by (facts/block_storage.md 11.3)."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.agent.settings import PoolSettings
from mooring.volume.backends.extra_specs import suits
from tests.volume.cloud import VolumeCloud

HAS: dict[str, Any] = {
    "volume_backend_name": "fast",
    "free_capacity_gb": 100.5,
    "multiattach": True,
    "storage_protocol": "nfs",
}


@pytest.mark.parametrize(
    ("specs", "met"),
    [
        ({}, True),
        ({"volume_backend_name": "fast"}, True),
        ({"capabilities:volume_backend_name": "fast"}, True),
        ({"volume_backend_name": "slow"}, False),
        ({"volume_backend_name": "<or> slow <or> fast"}, True),
        ({"volume_backend_name": "<or> slow <or> fas"}, False),
        ({"volume_backend_name": "<in> fas"}, True),
        ({"volume_backend_name": "s== fast"}, True),
        ({"volume_backend_name": "s!= fast"}, False),
        ({"capabilities:multiattach": "<is> True"}, True),
        ({"free_capacity_gb": ">= 100"}, True),
        ({"free_capacity_gb": "= 101"}, False),
        ({"free_capacity_gb": "<= 100"}, False),
        ({"free_capacity_gb": "== 100.5"}, True),
        ({"free_capacity_gb": ">= plenty"}, False),
        ({"storage_protocol": "s>= nfs"}, True),
        ({"compression": "<is> True"}, False),
        ({"netapp:thin": "true"}, True),
        ({"capabilities:netapp:thin": "true"}, False),
        ({"RESKEY:availability_zones": "nova"}, True),
        ({"replication_enabled": "<is> True"}, True),
    ],
)
def test_extra_specs_are_compared_as_upstream_does(specs: dict[str, str], met: bool) -> None:
    assert suits(HAS, specs) is met


async def _why(cloud: VolumeCloud, volume_id: str) -> str:
    """Return what the owner of a volume in error is told."""
    assert await cloud.status(volume_id) == "error"
    found = (await cloud.ask("GET", "/messages")).key("messages")
    [told] = [one["user_message"] for one in found if one["resource_uuid"] == volume_id]
    return told


@pytest.mark.anyio
async def test_who_is_told_that_no_pool_fits_learns_what_would_help(cloud: VolumeCloud) -> None:
    lost = await cloud.type_with(volume_backend_name="nowhere")
    told = await _why(cloud, await cloud.make(volume_type=lost))
    assert "1 without what the volume type asks for" in told
    assert "another volume type" in told
    assert "add storage" not in told
    small = PoolSettings(driver="simulated", name="fast", total_gib=10)
    await cloud.change_host("host1", pools=(small,))
    told = await _why(cloud, await cloud.make(size=900))
    assert "1 without the room. Delete volumes, or add storage." in told
    body = {"host": "host1@simulated", "binary": "cinder-volume"}
    await cloud.ask("PUT", "/os-services/disable", body, user="admin")
    told = await _why(cloud, await cloud.make())
    assert "1 that are disabled" in told
    await cloud.ask("PUT", "/os-services/enable", body, user="admin")


@pytest.mark.anyio
async def test_a_silent_host_is_not_told_as_a_lack_of_room(cloud: VolumeCloud) -> None:
    with cloud.silence():
        cloud.clock.advance(3600.0)
        told = await _why(cloud, await cloud.make())
    assert "1 whose host is silent. Try again when the hosts answer." in told
    assert "add storage" not in told
    assert "host1" not in told


@pytest.mark.anyio
async def test_the_backend_name_of_a_type_names_the_pool(cloud: VolumeCloud) -> None:
    pools = tuple(PoolSettings(driver="simulated", name=name) for name in ("fast", "slow"))
    await cloud.change_host("host1", pools=pools)
    for name in ("fast", "slow"):
        specs = {"volume_backend_name": name}
        body = {"volume_type": {"name": f"on {name}", "extra_specs": specs}}
        assert (await cloud.ask("POST", "/types", body, user="admin")).status == 200
        volume_id = await cloud.make(volume_type=f"on {name}")
        path = f"/volumes/{volume_id}"
        shown = (await cloud.ask("GET", path, user="admin")).body["volume"]
        assert shown["os-vol-host-attr:host"] == f"host1@simulated#{name}"


@pytest.mark.anyio
async def test_a_version_that_is_too_old_is_told_which_one_has_the_resource(
    cloud: VolumeCloud,
) -> None:
    answer = await cloud.ask("GET", "/messages", version="3.0")
    assert (answer.status, "from 3.3 on" in answer.text) == (404, True)


@pytest.mark.anyio
async def test_an_unknown_zone_is_answered_with_the_command_that_lists_them(
    cloud: VolumeCloud,
) -> None:
    body = {"volume": {"size": 1, "availability_zone": "mars"}}
    answer = await cloud.ask("POST", "/volumes", body)
    assert answer.status == 400
    assert "openstack availability zone list --volume" in answer.text
