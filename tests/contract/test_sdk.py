"""openstacksdk, as it comes, in the process of the test."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from openstack.connection import Connection
from openstack.exceptions import BadRequestException, NotFoundException

from tests.contract.clients import COMPUTE, MIB, VOLUME, Cloud, Http

# The SDK announces what it will drop when its own code, and not its caller, still uses it.
pytestmark = [
    pytest.mark.contract,
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The field '.*' has been deprecated"),
]
PARALLEL = 6


@pytest.fixture(scope="module")
def sdk(running_cloud: Cloud) -> Generator[Any]:
    """A connection. The SDK's own types know little, so it is taken for what it is."""
    connection: Connection = running_cloud.connect("demo")
    yield connection
    connection.close()


def boot(sdk: Any, name: str, image_id: str, **wanted: Any) -> Any:
    server = sdk.compute.create_server(
        name=name, image_id=image_id, flavor_id="42", networks="none", **wanted
    )
    return sdk.compute.wait_for_server(server, interval=0.1, wait=60)


def end(sdk: Any, server: Any) -> None:
    sdk.compute.delete_server(server)
    sdk.compute.wait_for_delete(server, interval=0.1, wait=60)


def make_volumes(sdk: Any, prefix: str, count: int) -> list[Any]:
    made = [sdk.block_storage.create_volume(name=f"{prefix}{n}", size=1) for n in range(count)]
    return [wait_for_volume(sdk, volume, "available") for volume in made]


def wait_for_volume(sdk: Any, volume: Any, status: str) -> Any:
    return sdk.block_storage.wait_for_status(volume, status, failures=["error"], interval=0.1)


def test_volumes_are_attached_to_one_server_and_detached_in_parallel(sdk: Any, guest: str) -> None:
    server, volumes = boot(sdk, "wide", guest), make_volumes(sdk, "wide", PARALLEL)

    def attach(volume: Any) -> Any:
        return sdk.compute.create_volume_attachment(server, volume_id=volume.id)

    def detach(volume: Any) -> Any:
        return sdk.compute.delete_volume_attachment(server, volume.id, ignore_missing=False)

    with ThreadPoolExecutor(PARALLEL) as pool:
        attachments = list(pool.map(attach, volumes))
        for volume in volumes:
            wait_for_volume(sdk, volume, "in-use")
        assert len({made.device for made in attachments}) == PARALLEL
        listed = list(sdk.compute.volume_attachments(server))
        assert {row.volume_id for row in listed} == {volume.id for volume in volumes}
        assert {row.id for row in sdk.compute.get_server(server.id).attached_volumes} == {
            volume.id for volume in volumes
        }
        list(pool.map(detach, volumes))
        for volume in volumes:
            wait_for_volume(sdk, volume, "available")
    assert list(sdk.compute.volume_attachments(server)) == []
    for volume in volumes:
        sdk.block_storage.delete_volume(volume)
        sdk.block_storage.wait_for_delete(volume, interval=0.1)
    end(sdk, server)


def test_a_server_is_stopped_started_rebooted_and_looked_at(sdk: Any, guest: str) -> None:
    server = boot(sdk, "busy", guest, metadata={"colour": "blue"})
    assert (server.status, server.metadata) == ("ACTIVE", {"colour": "blue"})
    assert server.flavor.name == "m1.nano"
    sdk.compute.stop_server(server)
    sdk.compute.wait_for_server(server, status="SHUTOFF", interval=0.1)
    sdk.compute.start_server(server)
    sdk.compute.wait_for_server(server, interval=0.1)
    sdk.compute.reboot_server(server, "HARD")
    sdk.compute.wait_for_server(server, interval=0.1)
    assert "mooring-guest: up" in sdk.compute.get_server_console_output(server)["output"]
    actions = [action.action for action in sdk.compute.server_actions(server)]
    assert actions == ["reboot", "start", "stop", "create"]
    end(sdk, server)
    with pytest.raises(NotFoundException):
        sdk.compute.get_server(server.id)


def test_an_attached_volume_is_not_deleted_and_boots_no_second_server(sdk: Any, guest: str) -> None:
    server, [volume] = boot(sdk, "holder", guest), make_volumes(sdk, "held", 1)
    sdk.compute.create_volume_attachment(server, volume_id=volume.id)
    wait_for_volume(sdk, volume, "in-use")
    with pytest.raises(BadRequestException, match="status must be available"):
        sdk.block_storage.delete_volume(volume)
    with pytest.raises(BadRequestException, match=f"{volume.id} is attached to server"):
        sdk.compute.create_volume_attachment(server, volume_id=volume.id)
    assert sdk.block_storage.get_volume(volume.id).attachments[0]["server_id"] == server.id
    end(sdk, server)
    wait_for_volume(sdk, volume, "available")
    sdk.block_storage.delete_volume(volume)
    sdk.block_storage.wait_for_delete(volume, interval=0.1)


def test_lists_are_paged_through(sdk: Any, member: Http, guest: str) -> None:
    servers = [member.begin_server(f"page{number}", guest) for number in range(5)]
    for server in servers:
        member.until_server(server, "ACTIVE")
    volumes = [volume.id for volume in make_volumes(sdk, "page", 5)]
    images = [member.image(f"page{number}") for number in range(5)]
    for listed, made in (
        (sdk.compute.servers(limit=2), servers),
        (sdk.compute.servers(details=False, limit=3, sort_key="created_at"), servers),
        (sdk.block_storage.volumes(limit=2), volumes),
        (sdk.block_storage.volumes(details=False, limit=4), volumes),
        (sdk.image.images(limit=2, sort="created_at:asc"), [guest, *images]),
    ):
        ids = [row.id for row in listed]
        assert len(ids) == len(set(ids))
        assert set(made) <= set(ids)
    assert len(list(sdk.compute.servers(limit=2, paginated=False))) == 2
    for server in servers:
        sdk.compute.delete_server(server)
    for volume in volumes:
        sdk.block_storage.delete_volume(volume)
    for image in images:
        sdk.image.delete_image(image)
    gone = [f"{COMPUTE}/servers/{server}" for server in servers]
    for path in [*gone, *(f"{VOLUME}/volumes/{volume}" for volume in volumes)]:
        member.until(path, lambda got: got.status == 404)


def test_an_image_goes_up_and_comes_down_with_its_checksum(sdk: Any) -> None:
    content = b"moor" * (MIB // 4)
    image = sdk.image.create_image(
        name="plain", data=content, disk_format="raw", container_format="bare", wait=True
    )
    assert sdk.image.download_image(image, stream=False).content == content
    assert sdk.image.find_image("plain").size == MIB
    sdk.image.delete_image(image)
    assert sdk.image.find_image("plain") is None


def test_the_sdk_finds_itself_and_its_project(sdk: Any) -> None:
    assert sdk.authorize()
    assert sdk.current_project.name == "demo"
    assert sdk.identity.get_project(sdk.current_project_id).name == "demo"
    assert {flavor.name for flavor in sdk.compute.flavors()} >= {"m1.nano", "m1.tiny"}
    assert sdk.compute.get_limits().absolute.instances > 0
    assert sdk.block_storage.get_limits().absolute.max_total_volumes > 0


def test_a_pinned_microversion_is_the_one_that_is_spoken(running_cloud: Cloud) -> None:
    options = {"compute_default_microversion": "2.1", "block_storage_default_microversion": "3.0"}
    connection: Any = running_cloud.connect("demo", **options)
    try:
        answer = connection.compute.get("/servers/detail")
        assert answer.headers["OpenStack-API-Version"] == "compute 2.1"
        answer = connection.block_storage.get("/volumes/detail")
        assert answer.headers["OpenStack-API-Version"] == "volume 3.0"
        newest = connection.compute.get_endpoint_data().max_microversion
        answer = connection.compute.get("/flavors/detail", microversion="2.61")
        assert "extra_specs" in answer.json()["flavors"][0]
        assert newest > (2, 90)
    finally:
        connection.close()


def test_an_administrator_puts_another_volume_in_the_place_of_one(
    sdk: Any, running_cloud: Cloud, guest: str
) -> None:
    server, (old, new) = boot(sdk, "swapped", guest), make_volumes(sdk, "swapped", 2)
    sdk.compute.create_volume_attachment(server, volume_id=old.id)
    wait_for_volume(sdk, old, "in-use")
    connection: Any = running_cloud.connect("mooring")
    connection.compute.update_volume_attachment(server.id, old.id, volume_id=new.id)
    connection.close()
    wait_for_volume(sdk, new, "in-use")
    wait_for_volume(sdk, old, "available")
    assert [one.volume_id for one in sdk.compute.volume_attachments(server)] == [new.id]
    end(sdk, server)
    for volume in (old, new):
        sdk.block_storage.delete_volume(wait_for_volume(sdk, volume, "available"))
