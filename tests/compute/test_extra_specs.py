"""Extra specs of flavors: from 2.86 on, what a known namespace does not have is refused."""

from __future__ import annotations

import pytest

from tests.compute.cloud import ComputeCloud

pytestmark = pytest.mark.anyio
PATH = "/flavors/1/os-extra_specs"
KNOWN = {
    "hw:mem_page_size": "2MB",
    "hw:numa_cpus.0": "0-3,^2",
    "hw:cpu_policy": "dedicated",
    "hw:hide_hypervisor_id": "True",
    "quota:disk_read_iops_sec": "100",
    "quota:vif_inbound_average": "5",
    "resources:VCPU": "2",
    "resources1:CUSTOM_GOLD": "1",
    "trait_FAST:HW_CPU_X86_AVX": "required",
    "aggregate_instance_extra_specs:ssd": "<or> yes <or> maybe",
    "capabilities:cpu_info": "s== x86",
    "os:secure_boot": "optional",
    "ours:anything": "goes",
    "plain": "word",
}
REFUSED = [
    ("hw:mem_pagesize", "large"),
    ("hw:mem_page_size", "huge"),
    ("hw:cpu_policy", "dedicate"),
    ("hw:numa_nodes", "0"),
    ("hw:pmu", "maybe"),
    ("trait:HW_CPU_X86_AVX", "wanted"),
    ("trait1:HW_CPU_X86_AVX", "wanted"),
    ("resources:vcpu", "1"),
    ("quota:disk_reads", "1"),
    ("hw_video:ram_max_mb", "-1"),
]


async def specs(cloud: ComputeCloud) -> dict[str, str]:
    return (await cloud.ask("GET", PATH)).key("extra_specs")


async def test_what_the_field_knows_is_taken(cloud: ComputeCloud) -> None:
    body = {"extra_specs": KNOWN}
    answer = await cloud.ask("POST", PATH, body, user="admin", version="2.86")
    assert answer.status == 200, answer.text
    assert await specs(cloud) == KNOWN


@pytest.mark.parametrize(("key", "value"), REFUSED)
async def test_what_would_come_to_nothing_is_refused(
    cloud: ComputeCloud, key: str, value: str
) -> None:
    body = {"extra_specs": {"plain": "word", key: value}}
    answer = await cloud.ask("POST", PATH, body, user="admin", version="2.86")
    assert answer.status == 400
    assert answer.text.count(key) == 1
    one = await cloud.ask("PUT", f"{PATH}/{key}", {key: value}, user="admin", version="2.86")
    assert one.status == 400
    assert await specs(cloud) == {}
    older = await cloud.ask("POST", PATH, body, user="admin", version="2.85")
    assert older.status == 200
