"""Scenarios of images that are made of servers, and of servers that are made of those."""

from __future__ import annotations

from typing import Any

from mooring.compute.create.sagas.create_server import CREATE_SERVER
from mooring.compute.images.sagas.create_backup import CREATE_BACKUP
from mooring.compute.images.sagas.create_image import CREATE_IMAGE
from mooring.compute.images.sagas.picture_volumes import PICTURE_VOLUMES
from tests.crowd import on_servers
from tests.laws import basics, rebuild_scenarios
from tests.laws.sites import COMPUTE, Scenario, Site, Wants
from tests.laws.told import Story

_ACTION = f"{COMPUTE}/servers/{{server}}/action"
_IMAGE = {"createImage": {"name": "picture", "metadata": {"role": "db"}}}


async def a_server(site: Site) -> None:
    """A server that runs, with its root disk on its host."""
    await basics.a_server(site)


async def a_server_that_is_off(site: Site) -> None:
    """The same, stopped."""
    await basics.a_server(site)
    await site.get("POST", _ACTION, {"os-stop": None})


async def a_server_with_a_backup(site: Site) -> None:
    """One that has as many images of the type as it may have."""
    await basics.a_server(site)
    await make_backup(site)
    await site.cloud.settle()
    await site.cloud.pass_time(1.5)


async def a_booted_server(site: Site) -> None:
    """A server that boots from a volume, and has another one besides."""
    await rebuild_scenarios.a_booted_server(site)


async def a_picture(site: Site) -> None:
    """The same, and an image that names a snapshot of each of its volumes."""
    await rebuild_scenarios.a_booted_server(site)
    made = await site.get("POST", _ACTION, _IMAGE, version="2.45")
    site.names["picture"] = made["image_id"]


async def make_image(site: Site) -> Any:
    return await site.ask("POST", _ACTION, _IMAGE, version="2.45")


async def make_backup(site: Site) -> Any:
    body = {"createBackup": {"name": "copy", "backup_type": "daily", "rotation": 1}}
    return await site.ask("POST", _ACTION, body, version="2.45")


async def create_from_picture(site: Site) -> Any:
    wanted = {"name": "copy", "flavorRef": site.names["flavor"], "imageRef": site.names["picture"]}
    return await site.ask("POST", f"{COMPUTE}/servers", {"server": wanted})


_ON_SERVER = Wants("server", "server")
SERVER_IMAGES = [
    Scenario("make image", CREATE_IMAGE, a_server, make_image, wants=_ON_SERVER),
    Scenario(
        "make image of one that is off",
        CREATE_IMAGE,
        a_server_that_is_off,
        make_image,
        wants=_ON_SERVER,
    ),
    Scenario("make backup", CREATE_BACKUP, a_server_with_a_backup, make_backup, wants=_ON_SERVER),
    Scenario(
        "make image of volumes",
        PICTURE_VOLUMES,
        a_booted_server,
        make_image,
        wants=Wants("server volume root new_image", "server volume root"),
    ),
    Scenario(
        "create from a picture",
        CREATE_SERVER,
        a_picture,
        create_from_picture,
        ("messages",),
        wants=Wants("server volume root new_image picture", "volume root", "picture"),
    ),
]
EVENTS = [
    Story(
        "instance.snapshot",
        "an image of it is being made, its record is there; it has its data. `snapshot_image_id`"
        " says which",
        about="server_id",
        sagas=(CREATE_IMAGE, CREATE_BACKUP),
    ),
]
CROWD = [
    on_servers.case("createImage", {"name": "{case}"}, shows='"ACTIVE"', alone=True),
    on_servers.case(
        "createBackup",
        {"name": "{case}", "backup_type": "daily", "rotation": 1},
        shows='"ACTIVE"',
        alone=True,
    ),
]
