"""POST /servers: what is taken and refused, by microversion."""

from __future__ import annotations

from typing import Any

import pytest

from tests.compute.api.cloud import FLAVOR, IMAGE, URL, ComputeAlone, fault_of

pytestmark = pytest.mark.anyio

ROOT = {
    "uuid": IMAGE,
    "source_type": "image",
    "destination_type": "local",
    "boot_index": 0,
    "delete_on_termination": True,
}


async def test_the_answer_has_links_and_a_password(cloud: ComputeAlone) -> None:
    answer = await cloud.ask("POST", "/servers", cloud.new())
    assert answer.status == 202
    server = answer.body["server"]
    assert set(server) == {"id", "links", "OS-DCF:diskConfig", "security_groups", "adminPass"}
    assert server["security_groups"] == [{"name": "default"}]
    assert len(server["adminPass"]) == 12
    self_link = f"{URL}/v2.1/servers/{server['id']}"
    assert answer.headers["location"] == self_link
    assert server["links"] == [
        {"rel": "self", "href": self_link},
        {"rel": "bookmark", "href": f"{URL}/servers/{server['id']}"},
    ]


async def test_the_new_server_is_building(cloud: ComputeAlone) -> None:
    server_id = (await cloud.create(metadata={"a": "b"}, adminPass="secret"))["id"]
    shown = (await cloud.get(f"/servers/{server_id}"))["server"]
    assert (shown["status"], shown["OS-EXT-STS:vm_state"]) == ("BUILD", "building")
    assert shown["metadata"] == {"a": "b"}


async def test_an_address_is_shown_as_it_is_written_in_short(cloud: ComputeAlone) -> None:
    server_id = (await cloud.create(accessIPv6="2001:0DB8:0::192.0.2.1"))["id"]
    path = f"/servers/{server_id}"
    assert (await cloud.get(path))["server"]["accessIPv6"] == "2001:db8::c000:201"
    for value, shown in (("2001:db8:0:0::000a", "2001:db8::a"), ("", "")):
        answer = await cloud.ask("PUT", path, {"server": {"accessIPv6": value}})
        assert answer.body["server"]["accessIPv6"] == shown


@pytest.mark.parametrize("scoped", ["fe80::1%eth0", "fe80::1%\n<b>", "2001:db8::1%1"])
async def test_an_address_for_access_has_no_scope(cloud: ComputeAlone, scoped: str) -> None:
    server_id = (await cloud.create(accessIPv6="2001:db8::1"))["id"]
    path = f"/servers/{server_id}"
    rebuild = {"rebuild": {"imageRef": IMAGE, "accessIPv6": scoped}}
    for answer in (
        await cloud.ask("POST", "/servers", cloud.new(accessIPv6=scoped)),
        await cloud.ask("PUT", path, {"server": {"accessIPv6": scoped}}),
        await cloud.ask("POST", f"{path}/action", rebuild),
    ):
        code, key, message = fault_of(answer)
        assert (code, key, "accessIPv6" in message) == (400, "badRequest", True)
    assert (await cloud.get(path))["server"]["accessIPv6"] == "2001:db8::1"


async def test_what_the_stock_command_sends_is_taken(cloud: ComputeAlone) -> None:
    body = cloud.new(
        "2.100", networks="auto", block_device_mapping_v2=[ROOT], min_count=1, max_count=1
    )
    answer = await cloud.ask("POST", "/servers", body, version="2.100")
    assert answer.status == 202, answer.text


async def test_a_reservation_id_is_answered_when_asked_for(cloud: ComputeAlone) -> None:
    body = cloud.new(return_reservation_id=True, min_count=2, max_count=2)
    answer = await cloud.ask("POST", "/servers", body)
    assert answer.status == 202
    reservation_id = answer.body["reservation_id"]
    listed = (await cloud.get(f"/servers?reservation_id={reservation_id}"))["servers"]
    assert sorted(server["name"] for server in listed) == ["vm-1", "vm-2"]


@pytest.mark.parametrize(
    ("field", "value", "since"),
    [
        ("description", "text", "2.19"),
        ("tags", ["a", "b"], "2.52"),
        ("hostname", "name", "2.90"),
        ("hostname", "name.example.org", "2.94"),
    ],
)
async def test_a_field_is_taken_from_its_version_on(
    cloud: ComputeAlone, field: str, value: Any, since: str
) -> None:
    before = f"2.{int(since.split('.')[1]) - 1}"
    refused = await cloud.ask(
        "POST", "/servers", cloud.new(before, **{field: value}), version=before
    )
    assert fault_of(refused)[:2] == (400, "badRequest")
    await cloud.create(version=since, **{field: value})


async def test_a_hostname_that_is_none_is_told_what_one_is(cloud: ComputeAlone) -> None:
    for version in ("2.90", "2.94"):
        body = cloud.new(version, hostname="bad host")
        refused = await cloud.ask("POST", "/servers", body, version=version)
        code, _, message = fault_of(refused)
        assert (code, "letters, digits and hyphens" in message) == (400, True)
        assert ("dots" in message) == (version == "2.94")


@pytest.mark.parametrize(
    ("version", "code"), [("2.31", 400), ("2.32", 202), ("2.33", 400), ("2.41", 400), ("2.42", 202)]
)
async def test_tags_of_disks_were_lost_for_a_while(
    cloud: ComputeAlone, version: str, code: int
) -> None:
    body = cloud.new(version, block_device_mapping_v2=[ROOT | {"tag": "root"}])
    answer = await cloud.ask("POST", "/servers", body, version=version)
    assert answer.status == code, answer.text


async def test_volume_types_of_disks_are_taken_from_267_on(cloud: ComputeAlone) -> None:
    disk = {
        "source_type": "blank",
        "destination_type": "volume",
        "volume_size": 1,
        "boot_index": -1,
        "volume_type": "fast",
    }
    body = {"block_device_mapping_v2": [ROOT, disk]}
    refused = await cloud.ask("POST", "/servers", cloud.new("2.66", **body), version="2.66")
    assert "volume_type" in fault_of(refused)[2]
    taken = await cloud.ask("POST", "/servers", cloud.new("2.67", **body), version="2.67")
    # The body is: what comes next is the volume service, which does not answer here.
    assert (taken.status, "volume service" in taken.text) == (503, True), taken.text


@pytest.mark.parametrize(
    ("version", "networks", "code"),
    [
        ("2.1", None, 202),
        ("2.36", None, 202),
        ("2.36", "auto", 400),
        ("2.1", [], 202),
        ("2.1", [{"uuid": IMAGE}], 400),
        ("2.37", None, 400),
        ("2.37", "auto", 202),
        ("2.37", "none", 202),
        ("2.37", "some", 400),
        ("2.104", [{"uuid": IMAGE}], 400),
        ("2.104", [{"port": IMAGE}], 400),
    ],
)
async def test_networks_are_auto_or_none(
    cloud: ComputeAlone, version: str, networks: Any, code: int
) -> None:
    body: dict[str, Any] = {"server": {"name": "vm", "flavorRef": FLAVOR, "imageRef": IMAGE}}
    if networks is not None:
        body["server"]["networks"] = networks
    answer = await cloud.ask("POST", "/servers", body, version=version)
    assert answer.status == code, answer.text


async def test_a_network_by_id_is_refused_with_what_to_do(cloud: ComputeAlone) -> None:
    body = cloud.new("2.37", networks=[{"uuid": IMAGE}])
    answer = await cloud.ask("POST", "/servers", body, version="2.37")
    assert "'auto'" in fault_of(answer)[2]


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": " vm"},
        {"name": "vm "},
        {"name": "a\nb"},
        {"name": "vm\n"},
        {"name": "x" * 256},
        {"name": 1},
        {"name": None},
        {"flavorRef": ""},
        {"flavorRef": "nope"},
        {"flavorRef": []},
        {"imageRef": "cirros"},
        {"imageRef": "22222222-2222-4222-8222-222222222222"},
        {"imageRef": ""},
        {"metadata": {"a": 1}},
        {"metadata": {"a/b": "c"}},
        {"metadata": {"a": "b" * 256}},
        {"metadata": []},
        {"OS-DCF:diskConfig": "SOME"},
        {"accessIPv4": "::1"},
        {"accessIPv6": "10.0.0.1"},
        {"min_count": 0},
        {"min_count": "many"},
        {"min_count": 3, "max_count": 2},
        {"max_count": 2**31},
        {"user_data": "%%%"},
        {"user_data": "A" * 65536},
        {"key_name": "nope"},
        {"availability_zone": "mars"},
        {"security_groups": [{"name": "web"}]},
        {"personality": [{"path": "/etc/motd", "contents": "aGk="}]},
        {"block_device_mapping_v2": [{"source_type": "tape"}]},
        {"block_device_mapping_v2": [ROOT | {"surprise": 1}]},
        {"block_device_mapping_v2": [ROOT | {"boot_index": 1}]},
        {"block_device_mapping_v2": [ROOT | {"boot_index": "first"}]},
        {"block_device_mapping_v2": [ROOT], "block_device_mapping": [{"volume_id": IMAGE}]},
        {"block_device_mapping": [{"device_name": "vda"}]},
        {"surprise": 1},
    ],
)
async def test_bad_input_is_400(cloud: ComputeAlone, change: dict[str, Any]) -> None:
    answer = await cloud.ask("POST", "/servers", cloud.new(**change))
    assert fault_of(answer)[:2] == (400, "badRequest"), answer.text
    assert (await cloud.get("/servers"))["servers"] == []


@pytest.mark.parametrize(
    "body", [None, [], "vm", {}, {"server": None}, {"server": {}}, {"server": {}, "more": 1}]
)
async def test_a_body_without_a_server_is_400(cloud: ComputeAlone, body: Any) -> None:
    assert fault_of(await cloud.ask("POST", "/servers", body))[0] == 400


async def test_scheduler_hints_may_have_any_name(cloud: ComputeAlone) -> None:
    body = cloud.new("2.100") | {"os:scheduler_hints": {"mine": "yes"}}
    answer = await cloud.ask("POST", "/servers", body, version="2.100")
    server_id = answer.body["server"]["id"]
    shown = (await cloud.get(f"/servers/{server_id}", version="2.100"))["server"]
    assert shown["scheduler_hints"] == {"mine": "yes"}


async def test_image_signatures_are_not_promised(cloud: ComputeAlone) -> None:
    body = cloud.new("2.63", trusted_image_certificates=[IMAGE])
    answer = await cloud.ask("POST", "/servers", body, version="2.63")
    assert "signatures" in fault_of(answer)[2]


@pytest.mark.parametrize(
    ("version", "change"),
    [("2.1", {"availability_zone": "nova:host1"}), ("2.74", {"host": "host1"})],
)
async def test_naming_a_host_is_for_administrators(
    cloud: ComputeAlone, version: str, change: dict[str, Any]
) -> None:
    await cloud.host("host1")
    body = cloud.new(version, **change)
    refused = await cloud.ask("POST", "/servers", body, version=version)
    assert fault_of(refused)[:2] == (403, "forbidden")
    taken = await cloud.ask("POST", "/servers", body, version=version, user="admin")
    assert taken.status == 202, taken.text


async def test_a_reader_may_not_create(cloud: ComputeAlone) -> None:
    answer = await cloud.ask("POST", "/servers", cloud.new(), user="reader")
    assert fault_of(answer)[:2] == (403, "forbidden")


async def test_over_quota_is_403(cloud: ComputeAlone) -> None:
    body = cloud.new(min_count=11, max_count=11)
    code, key, message = fault_of(await cloud.ask("POST", "/servers", body))
    assert (code, key) == (403, "forbidden")
    assert "instances" in message


async def test_max_count_is_cut_to_the_quota(cloud: ComputeAlone) -> None:
    await cloud.create(min_count=1, max_count=20)
    assert len((await cloud.get("/servers"))["servers"]) == 10


async def test_the_key_is_kept_with_the_server(cloud: ComputeAlone) -> None:
    made = await cloud.ask("POST", "/os-keypairs", {"keypair": {"name": "k"}}, version="2.2")
    assert made.status == 201
    server_id = (await cloud.create(key_name="k"))["id"]
    assert (await cloud.get(f"/servers/{server_id}"))["server"]["key_name"] == "k"
