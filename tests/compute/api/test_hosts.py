"""/os-services, /os-hypervisors and /os-availability-zone: hosts, each in three shapes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mooring.fence import debts
from mooring.fence.operation import Operation
from tests.compute.api.cloud import ComputeAlone, fault_of

pytestmark = pytest.mark.anyio

UUID = "55555555-5555-4555-8555-555555555555"
PROVIDER = "66666666-6666-4666-8666-666666666666"
GOLDEN = "tests/golden/compute"


async def furnish(cloud: ComputeAlone) -> None:
    await cloud.host("host1", service_uuid=UUID, provider_id=PROVIDER)
    await cloud.host("host2", zone="attic", disabled=True, disabled_reason="dust")
    await cloud.server(
        id="22222222-2222-4222-8222-222222222222", host="host1", task_state="rebooting"
    )


async def services(cloud: ComputeAlone, query: str = "", version: str = "2.53") -> list[Any]:
    return (await cloud.get(f"/os-services{query}", version=version, user="admin"))["services"]


@pytest.mark.parametrize("version", ["2.1", "2.11", "2.53"])
async def test_services_show_what_the_golden_file_says(
    cloud: ComputeAlone, golden: Callable[[str, str], None], version: str
) -> None:
    await furnish(cloud)
    found = await services(cloud, "?host=host1", version)
    golden(f"{GOLDEN}/services-{version}.json", json.dumps(found, indent=2, sort_keys=True) + "\n")


@pytest.mark.parametrize("version", ["2.1", "2.28", "2.33", "2.53", "2.75", "2.88"])
async def test_hypervisors_show_what_the_golden_file_says(
    cloud: ComputeAlone, golden: Callable[[str, str], None], version: str
) -> None:
    await furnish(cloud)
    plain = await cloud.get("/os-hypervisors", version=version, user="admin")
    detail = await cloud.get("/os-hypervisors/detail", version=version, user="admin")
    text = json.dumps({"list": plain, "detail": _at_host1(detail)}, indent=2, sort_keys=True) + "\n"
    golden(f"{GOLDEN}/hypervisors-{version}.json", text.replace(_second(plain), "HOST2"))


def _at_host1(listed: Any) -> Any:
    return [one for one in listed["hypervisors"] if one["hypervisor_hostname"] == "host1"]


def _second(listed: Any) -> str:
    """Return the id of host2 when it is a uuid, which is another one in each run."""
    found = listed["hypervisors"][1]["id"]
    return found if isinstance(found, str) else "\0"


async def test_services_are_found_by_host_and_binary(cloud: ComputeAlone) -> None:
    await furnish(cloud)
    assert [one["host"] for one in await services(cloud)][:2] == ["host1", "host2"]
    assert [one["host"] for one in await services(cloud, "?host=host2")] == ["host2"]
    assert await services(cloud, "?binary=nova-cert") == []
    assert await services(cloud, "?host=nope") == []


async def test_a_silent_host_is_down(cloud: ComputeAlone) -> None:
    await cloud.host("host1", last_seen_at=cloud.clock.now() - timedelta(seconds=61))
    assert (await services(cloud))[0]["state"] == "down"


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ({"status": "disabled"}, {"status": "disabled", "disabled_reason": None}),
        (
            {"status": "disabled", "disabled_reason": "dust"},
            {"status": "disabled", "disabled_reason": "dust"},
        ),
        ({"status": "enabled"}, {"status": "enabled", "disabled_reason": None}),
        ({"forced_down": True}, {"forced_down": True, "state": "down"}),
        ({"forced_down": "false"}, {"forced_down": False, "state": "up"}),
    ],
)
async def test_a_service_is_changed_by_its_uuid(cloud: ComputeAlone, body: Any, shown: Any) -> None:
    await furnish(cloud)
    path = f"/os-services/{UUID}"
    answer = await cloud.ask("PUT", path, body, version="2.53", user="admin")
    assert answer.status == 200, answer.text
    assert shown.items() <= answer.body["service"].items()
    assert shown.items() <= (await services(cloud, "?host=host1"))[0].items()


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        (UUID, {}, 400),
        (UUID, {"status": "asleep"}, 400),
        (UUID, {"disabled_reason": "x"}, 400),
        (UUID, {"status": "enabled", "disabled_reason": "x"}, 400),
        (UUID, {"status": "disabled", "disabled_reason": ""}, 400),
        (UUID, {"host": "host1"}, 400),
        ("nope", {"status": "enabled"}, 400),
        (PROVIDER, {"status": "enabled"}, 404),
    ],
)
async def test_a_bad_change_is_refused(
    cloud: ComputeAlone, path: str, body: Any, code: int
) -> None:
    await furnish(cloud)
    answer = await cloud.ask("PUT", f"/os-services/{path}", body, version="2.53", user="admin")
    assert fault_of(answer)[0] == code


@pytest.mark.parametrize(
    ("action", "more", "answered"),
    [
        ("disable", {}, {"status": "disabled"}),
        ("enable", {}, {"status": "enabled"}),
        (
            "disable-log-reason",
            {"disabled_reason": "dust"},
            {"status": "disabled", "disabled_reason": "dust"},
        ),
        ("force-down", {"forced_down": True}, {"forced_down": True}),
    ],
)
async def test_a_service_was_changed_by_its_host(
    cloud: ComputeAlone, action: str, more: dict[str, Any], answered: dict[str, Any]
) -> None:
    await furnish(cloud)
    named = {"host": "host1", "binary": "nova-compute"}
    path = f"/os-services/{action}"
    answer = await cloud.ask("PUT", path, named | more, version="2.52", user="admin")
    assert answer.body == {"service": named | answered}
    for bad, code in (
        ({"host": "nope", "binary": "nova-compute"}, 404),
        ({"host": "host1", "binary": "nova-scheduler"}, 400),
        ({"host": "host1"}, 400),
    ):
        answer = await cloud.ask("PUT", path, {**bad, **more}, version="2.52", user="admin")
        assert fault_of(answer)[0] == code


async def test_an_unknown_change_is_404(cloud: ComputeAlone) -> None:
    body = {"host": "host1", "binary": "nova-compute", "forced_down": True}
    for action, version in (("explode", "2.52"), ("force-down", "2.10")):
        path = f"/os-services/{action}"
        assert fault_of(await cloud.ask("PUT", path, body, version=version, user="admin"))[0] == 404


async def test_a_host_in_debt_stays_down(cloud: ComputeAlone) -> None:
    await cloud.host("host1", service_uuid=UUID, forced_down=True)
    store, operation = cloud.compute.store, Operation("saga", "step", 1, 1)
    await store.write(lambda tx: debts.owe(tx, "host1", "DELETE", "/servers/x", operation))
    path, body = f"/os-services/{UUID}", {"forced_down": False}
    refused = await cloud.ask("PUT", path, body, version="2.53", user="admin")
    assert fault_of(refused)[0] == 400
    assert (await services(cloud))[0]["forced_down"] is True
    for debt in await store.read(lambda tx: debts.owed(tx, "host1")):
        await store.write(lambda tx, debt=debt: debts.pay(tx, debt))
    taken = await cloud.ask("PUT", path, body, version="2.53", user="admin")
    assert taken.body["service"]["state"] == "up"


async def test_a_host_in_use_or_up_is_not_forgotten(cloud: ComputeAlone) -> None:
    await furnish(cloud)
    for version, service_id in (("2.53", UUID), ("2.52", "1")):
        path = f"/os-services/{service_id}"
        code, _, message = fault_of(await cloud.ask("DELETE", path, version=version, user="admin"))
        assert (code, "1 instances" in message) == (409, True)
    answer = await cloud.ask("DELETE", "/os-services/2", version="2.52", user="admin")
    assert "is up" in fault_of(answer)[2]
    for service_id, version, code in (("x", "2.52", 400), ("9", "2.52", 404), ("9", "2.53", 400)):
        path = f"/os-services/{service_id}"
        assert fault_of(await cloud.ask("DELETE", path, version=version, user="admin"))[0] == code


async def test_the_control_plane_is_shown_as_upstreams_services(cloud: ComputeAlone) -> None:
    await furnish(cloud)
    for version, more in (
        ("2.1", set[str]()),
        ("2.11", {"forced_down"}),
        ("2.53", {"forced_down"}),
    ):
        (shown,) = await services(cloud, "?binary=nova-scheduler", version)
        known = {
            name: shown[name] for name in ("host", "zone", "status", "state", "disabled_reason")
        }
        assert known == {
            "host": "control-1",
            "zone": "internal",
            "status": "enabled",
            "state": "up",
            "disabled_reason": None,
        }
        assert more <= shown.keys()
    every = await services(cloud)
    assert [one["binary"] for one in every[2:]] == ["nova-conductor", "nova-scheduler"]
    assert len({one["id"] for one in every}) == 4
    path = f"/os-services/{shown['id']}"
    for method, body in (("PUT", {"status": "disabled"}), ("DELETE", None)):
        answer = await cloud.ask(method, path, body, version="2.53", user="admin")
        assert (answer.status, "nova-scheduler" in answer.text) == (400, True)
    detail = await cloud.get("/os-availability-zone/detail", user="admin")
    internal = detail["availabilityZoneInfo"][-1]
    assert (internal["zoneName"], internal["zoneState"]) == ("internal", {"available": True})
    assert set(internal["hosts"]["control-1"]) == {"nova-conductor", "nova-scheduler"}


async def test_hosts_are_for_administrators(cloud: ComputeAlone) -> None:
    for path in ("/os-services", "/os-hypervisors", "/os-availability-zone/detail"):
        assert fault_of(await cloud.ask("GET", path))[:2] == (403, "forbidden")


@pytest.mark.parametrize(("version", "identifier"), [("2.52", "1"), ("2.53", PROVIDER)])
async def test_one_hypervisor_is_shown_by_its_id(
    cloud: ComputeAlone, version: str, identifier: str
) -> None:
    await furnish(cloud)
    shown = await cloud.get(f"/os-hypervisors/{identifier}", version=version, user="admin")
    assert shown["hypervisor"]["hypervisor_hostname"] == "host1"
    assert shown["hypervisor"]["running_vms"] == 1
    for wrong, code in ((UUID, 404), ("nope", 400 if version == "2.53" else 404)):
        path = f"/os-hypervisors/{wrong}"
        assert fault_of(await cloud.ask("GET", path, version=version, user="admin"))[0] == code


async def test_hypervisors_are_shown_with_their_servers(cloud: ComputeAlone) -> None:
    await furnish(cloud)
    expected = [{"uuid": "22222222-2222-4222-8222-222222222222", "name": "vm"}]
    path = "/os-hypervisors?with_servers=true&hypervisor_hostname_pattern=st1"
    (found,) = (await cloud.get(path, version="2.53", user="admin"))["hypervisors"]
    assert found["servers"] == expected
    old = await cloud.get("/os-hypervisors/host1/servers", version="2.52", user="admin")
    assert old["hypervisors"][0]["servers"] == expected
    searched = await cloud.get("/os-hypervisors/host/search", version="2.52", user="admin")
    assert len(searched["hypervisors"]) == 2
    for lost, version in (
        ("/os-hypervisors/nope/search", "2.52"),
        ("/os-hypervisors?hypervisor_hostname_pattern=nope", "2.53"),
        ("/os-hypervisors/host/search", "2.53"),
    ):
        assert fault_of(await cloud.ask("GET", lost, version=version, user="admin"))[0] == 404


async def test_hypervisors_are_paged_from_233_on(cloud: ComputeAlone) -> None:
    await furnish(cloud)
    path, found = "/os-hypervisors?limit=1", list[str]()
    while path:
        listed = await cloud.get(path, version="2.33", user="admin")
        found += [one["hypervisor_hostname"] for one in listed["hypervisors"]]
        path = next((link["href"] for link in listed.get("hypervisors_links", [])), "")
    assert found == ["host1", "host2"]
    lost = await cloud.ask("GET", "/os-hypervisors?marker=9", version="2.33", user="admin")
    assert fault_of(lost)[0] == 400


async def test_statistics_sum_up_what_is_enabled(cloud: ComputeAlone) -> None:
    await furnish(cloud)
    path = "/os-hypervisors/statistics"
    sums = (await cloud.get(path, version="2.87", user="admin"))["hypervisor_statistics"]
    assert (sums["count"], sums["vcpus"], sums["vcpus_used"], sums["running_vms"]) == (1, 4, 1, 1)
    assert (await cloud.ask("GET", path, version="2.88", user="admin")).status == 404


async def test_zones_are_available_when_a_host_takes_servers(cloud: ComputeAlone) -> None:
    assert await cloud.get("/os-availability-zone") == {
        "availabilityZoneInfo": [
            {"zoneName": "nova", "zoneState": {"available": False}, "hosts": None}
        ]
    }
    await furnish(cloud)
    listed = (await cloud.get("/os-availability-zone"))["availabilityZoneInfo"]
    assert [(zone["zoneName"], zone["zoneState"]["available"]) for zone in listed] == [
        ("attic", False),
        ("nova", True),
    ]
    detail = await cloud.get("/os-availability-zone/detail", user="admin")
    assert detail["availabilityZoneInfo"][1]["hosts"] == {
        "host1": {
            "nova-compute": {
                "available": True,
                "active": True,
                "updated_at": "2026-01-01T00:00:00.000000",
            }
        }
    }
