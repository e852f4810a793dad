"""GET /servers/{id}: what each microversion shows to whom."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mooring.compute.tables import BlockDevice, Fault, ServerMetadata, ServerTag
from tests.compute.api.cloud import FLAVOR, IMAGE, ComputeAlone, fault_of, version_of

pytestmark = pytest.mark.anyio

SERVER = "22222222-2222-4222-8222-222222222222"
VOLUME = "33333333-3333-4333-8333-333333333333"
VERSIONS = [
    "2.1",
    "2.3",
    "2.9",
    "2.16",
    "2.19",
    "2.26",
    "2.47",
    "2.63",
    "2.71",
    "2.73",
    "2.75",
    "2.90",
    "2.96",
    "2.98",
    "2.100",
    "2.104",
]
GOLDEN = "tests/golden/compute"


async def furnish(cloud: ComputeAlone) -> None:
    """Write one server with everything that a server may have."""
    await cloud.host("host1")
    await cloud.server(
        id=SERVER,
        host="host1",
        pinned_zone="nova",
        description="a server",
        key_name="key",
        image_properties={"os_distro": "cirros"},
        extra_specs={"hw:cpu_policy": "shared"},
        scheduler_hints={"mine": "yes"},
        user_data="aGk=",
        config_drive=True,
        access_ip_v4="192.0.2.1",
        locked_by="owner",
        locked_reason="busy",
    )
    now = cloud.clock.now()
    await cloud.put(ServerMetadata, {"server_id": SERVER, "key": "a", "value": "b"})
    await cloud.put(ServerTag, *({"server_id": SERVER, "tag": tag} for tag in ("red", "blue")))
    await cloud.put(BlockDevice, block_device(cloud, volume_id=VOLUME, delete_on_termination=True))
    fault = {"server_id": SERVER, "code": 500, "message": "old", "details": "trace"}
    await cloud.put(Fault, fault | {"created_at": now})


def block_device(cloud: ComputeAlone, **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": "44444444-4444-4444-8444-444444444444",
        "server_id": SERVER,
        "state": "attached",
        "source_type": "volume",
        "destination_type": "volume",
        "boot_index": None,
        "device_name": "/dev/vdb",
        "created_at": cloud.clock.now(),
        "updated_at": cloud.clock.now(),
    }
    return row | more


@pytest.mark.parametrize("user", ["member", "admin"])
@pytest.mark.parametrize("version", VERSIONS)
async def test_each_version_shows_what_the_golden_file_says(
    cloud: ComputeAlone, golden: Callable[[str, str], None], version: str, user: str
) -> None:
    await furnish(cloud)
    shown = await cloud.get(f"/servers/{SERVER}", version=version, user=user)
    golden(f"{GOLDEN}/server-{version}-{user}.json", as_text(shown))


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_list_shows_the_same_but_for_server_groups(
    cloud: ComputeAlone, version: str
) -> None:
    await furnish(cloud)
    shown = (await cloud.get(f"/servers/{SERVER}", version=version, user="admin"))["server"]
    shown.pop("server_groups", None)
    listed = await cloud.get("/servers/detail", version=version, user="admin")
    assert listed == {"servers": [shown]}
    brief = await cloud.get("/servers", version=version)
    assert brief == {"servers": [{key: shown[key] for key in ("id", "name", "links")}]}


def as_text(body: Any) -> str:
    return json.dumps(body, indent=2, sort_keys=True) + "\n"


@pytest.mark.parametrize("version", ["2.1", "2.19", "2.75", "2.104"])
async def test_an_update_answers_what_the_golden_file_says(
    cloud: ComputeAlone, golden: Callable[[str, str], None], version: str
) -> None:
    await furnish(cloud)
    body = {"server": {"name": "renamed", "accessIPv6": "2001:db8::1"}}
    answer = await cloud.ask("PUT", f"/servers/{SERVER}", body, version=version)
    assert answer.status == 200, answer.text
    golden(f"{GOLDEN}/server-update-{version}.json", as_text(answer.body))


async def test_each_version_only_adds_or_takes_named_keys(cloud: ComputeAlone) -> None:
    await furnish(cloud)
    before: set[str] = set()
    for minor in range(1, 105):
        shown = await cloud.get(f"/servers/{SERVER}", version=f"2.{minor}")
        keys = set(shown["server"])
        assert before <= keys
        before = keys


async def test_a_server_of_another_project_is_404(cloud: ComputeAlone) -> None:
    server_id = await cloud.server()
    answer = await cloud.ask("GET", f"/servers/{server_id}", user="stranger")
    assert fault_of(answer) == (
        404,
        "itemNotFound",
        f"Instance {server_id} could not be found.",
    )


@pytest.mark.parametrize("server_id", ["nope", SERVER, "x" * 300])
async def test_an_unknown_server_is_404(cloud: ComputeAlone, server_id: str) -> None:
    assert fault_of(await cloud.ask("GET", f"/servers/{server_id}"))[:2] == (404, "itemNotFound")


async def test_a_deleted_server_is_404(cloud: ComputeAlone) -> None:
    server_id = await cloud.server(vm_state="deleted", deleted_at=cloud.clock.now())
    assert fault_of(await cloud.ask("GET", f"/servers/{server_id}", user="admin"))[0] == 404


async def test_a_server_booted_from_a_volume_has_no_image(cloud: ComputeAlone) -> None:
    server_id = await cloud.server(image_id="")
    for version in ("2.1", "2.98"):
        assert (await cloud.get(f"/servers/{server_id}", version=version))["server"]["image"] == ""


@pytest.mark.parametrize(
    ("vm_state", "task_state", "shown"),
    [
        ("active", None, "ACTIVE"),
        ("active", "rebooting", "REBOOT"),
        ("active", "reboot_started_hard", "HARD_REBOOT"),
        ("active", "powering-off", "ACTIVE"),
        ("stopped", "powering-on", "SHUTOFF"),
        ("stopped", "resize_prep", "RESIZE"),
        ("resized", None, "VERIFY_RESIZE"),
        ("resized", "resize_reverting", "REVERT_RESIZE"),
        ("error", "rebuilding", "REBUILD"),
        ("shelved_offloaded", None, "SHELVED_OFFLOADED"),
        ("strange", None, "UNKNOWN"),
    ],
)
async def test_the_status_follows_from_the_states(
    cloud: ComputeAlone, vm_state: str, task_state: str | None, shown: str
) -> None:
    server_id = await cloud.server(vm_state=vm_state, task_state=task_state)
    assert (await cloud.get(f"/servers/{server_id}"))["server"]["status"] == shown


async def test_the_newest_fault_is_shown_in_error_only(cloud: ComputeAlone) -> None:
    server_id = await cloud.server(vm_state="error")
    fault = {"server_id": server_id, "code": 500, "details": "Traceback", "message": "first"}
    for message in ("first", "second"):
        await cloud.put(Fault, fault | {"message": message, "created_at": cloud.clock.now()})
    mine = (await cloud.get(f"/servers/{server_id}"))["server"]["fault"]
    assert mine == {"code": 500, "created": "2026-01-01T00:00:00Z", "message": "second"}
    theirs = (await cloud.get(f"/servers/{server_id}", user="admin"))["server"]["fault"]
    assert theirs["details"] == "Traceback"
    healthy = await cloud.server()
    await cloud.put(Fault, fault | {"server_id": healthy, "created_at": cloud.clock.now()})
    assert "fault" not in (await cloud.get(f"/servers/{healthy}"))["server"]


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({}, "UP"),
        ({"forced_down": True}, "DOWN"),
        ({"disabled": True}, "MAINTENANCE"),
        ({"last_seen_at": None}, "UNKNOWN"),
    ],
)
async def test_the_host_status_is_for_administrators(
    cloud: ComputeAlone, change: dict[str, Any], shown: str
) -> None:
    if "last_seen_at" in change:
        change = {"last_seen_at": cloud.clock.now() - timedelta(seconds=61)}
    await cloud.host("host1", **change)
    server_id = await cloud.server(host="host1")
    path = f"/servers/{server_id}"
    assert (await cloud.get(path, version="2.16", user="admin"))["server"]["host_status"] == shown
    assert "host_status" not in (await cloud.get(path, version="2.16"))["server"]
    assert "host_status" not in (await cloud.get(path, version="2.15", user="admin"))["server"]


async def test_a_project_sees_one_id_for_one_host(cloud: ComputeAlone) -> None:
    ids = [await cloud.server(host=host) for host in ("host1", "host1", "host2", None)]
    first, second, third, none = [
        (await cloud.get(f"/servers/{server_id}"))["server"]["hostId"] for server_id in ids
    ]
    assert first == second != third
    assert (len(first), none) == (56, "")


@pytest.mark.parametrize(
    ("field", "value", "since"),
    [
        ("description", None, "2.19"),
        ("hostname", "name", "2.90"),
        ("pinned_availability_zone", None, "2.104"),
    ],
)
async def test_an_update_takes_a_field_from_its_version_on(
    cloud: ComputeAlone, field: str, value: Any, since: str
) -> None:
    server_id = await cloud.server()
    body = {"server": {field: value}}
    before = f"2.{version_of(since)[1] - 1}"
    refused = await cloud.ask("PUT", f"/servers/{server_id}", body, version=before)
    assert fault_of(refused)[0] == 400
    taken = await cloud.ask("PUT", f"/servers/{server_id}", body, version=since)
    assert taken.status == 200, taken.text


@pytest.mark.parametrize(
    "change",
    [
        {"name": " "},
        {"accessIPv4": "nope"},
        {"OS-DCF:diskConfig": "x"},
        {"imageRef": IMAGE},
        {"flavorRef": FLAVOR},
        {"hostname": "-"},
        {"pinned_availability_zone": "mars"},
    ],
)
async def test_a_bad_update_is_400_and_changes_nothing(
    cloud: ComputeAlone, change: dict[str, Any]
) -> None:
    server_id = await cloud.server()
    before = await cloud.get(f"/servers/{server_id}")
    answer = await cloud.ask("PUT", f"/servers/{server_id}", {"server": change}, version="2.104")
    assert fault_of(answer)[:2] == (400, "badRequest")
    assert await cloud.get(f"/servers/{server_id}") == before


async def test_pinning_to_another_zone_than_its_own_is_400(cloud: ComputeAlone) -> None:
    await cloud.host("host1")
    await cloud.host("host2", zone="attic")
    server_id = await cloud.server(host="host1")
    for zone, code in (("attic", 400), ("nova", 200), (None, 200)):
        body = {"server": {"pinned_availability_zone": zone}}
        answer = await cloud.ask("PUT", f"/servers/{server_id}", body, version="2.104")
        assert answer.status == code, answer.text


async def test_an_unknown_query_is_400_from_275_on(cloud: ComputeAlone) -> None:
    server_id = await cloud.server()
    assert await cloud.get(f"/servers/{server_id}?x=1", version="2.74")
    answer = await cloud.ask("GET", f"/servers/{server_id}?x=1", version="2.75")
    assert fault_of(answer)[:2] == (400, "badRequest")


async def test_hosts_that_are_gone_leave_an_empty_status(cloud: ComputeAlone) -> None:
    server_id = await cloud.server(host="gone")
    shown = await cloud.get(f"/servers/{server_id}", version="2.16", user="admin")
    assert shown["server"]["host_status"] == ""


async def test_a_server_shows_the_security_group_that_its_creation_told(
    cloud: ComputeAlone,
) -> None:
    made = await cloud.create(security_groups=[{"name": "default"}])
    shown = (await cloud.get(f"/servers/{made['id']}"))["server"]
    assert shown["security_groups"] == made["security_groups"] == [{"name": "default"}]
