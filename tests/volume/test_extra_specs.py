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
