"""How a server is rebuilt: with a new root disk, with a new content of its volume, as it is."""

from __future__ import annotations

from functools import partial
from typing import Any

from mooring.compute.moves.sagas.evacuate import EVACUATE
from mooring.compute.rebuild.sagas.rebuild_server import REBUILD_SERVER
from mooring.compute.rebuild.sagas.renew_server import RENEW_SERVER
from tests.crowd import on_servers
from tests.laws import basics
from tests.laws.shelve_scenarios import one_that_is_half_away
from tests.laws.sites import COMPUTE, IMAGE, Scenario, Site, Wants
from tests.laws.told import WITH_ERROR, Story


async def a_server_with_volume(site: Site) -> None:
    await basics.a_server_with_volume(site)


async def another_image(site: Site) -> None:
    body = {"name": "new", "disk_format": "raw", "container_format": "bare"}
    body["visibility"] = "public"
    made = await site.get("POST", f"{IMAGE}/images", body, user="admin")
    site.names["new_image"] = made["id"]
    await site.get("PUT", f"{IMAGE}/images/{{new_image}}/file", bytes(65536), user="admin")


async def a_booted_server(site: Site) -> None:
    """A server that boots from a volume, and has another one besides."""
    await another_image(site)
    await basics.a_volume(site, "root", imageRef=site.names["image"])
    root = basics.disk("volume", "{root}", boot_index=0)
    made = await site.get(*basics.new_server(site, root))
    site.names["server"] = made["server"]["id"]
    await basics.a_volume(site)
    await basics.attach(site)
    await site.cloud.settle()


async def a_server_left_in_error(site: Site) -> None:
    """One whose rebuild failed: its root volume has the image, and is reserved for it."""
    await a_booted_server(site)
    site.refuse_once("PUT", "/attachments/")
    await rebuild(site, "new_image")
    await site.cloud.settle()


async def rebuild(site: Site, image: str = "image", version: str = "2.93") -> Any:
    value = {"imageRef": site.names[image]}
    path = f"{COMPUTE}/servers/{{server}}/action"
    return await site.ask("POST", path, {"rebuild": value}, version=version)


_TOLD = ("faults", "instance_actions")
REBUILDS = [
    Scenario(
        "rebuild",
        RENEW_SERVER,
        a_server_with_volume,
        rebuild,
        wants=Wants("server volume", "server volume"),
    ),
    Scenario(
        "rebuild a volume",
        REBUILD_SERVER,
        a_booted_server,
        partial(rebuild, image="new_image"),
        wants=Wants("server volume root new_image", "server volume root", "new_image"),
    ),
    Scenario(
        "rebuild and keep the volume",
        RENEW_SERVER,
        a_server_left_in_error,
        partial(rebuild, image="new_image", version="2.92"),
        _TOLD,
        wants=Wants("server volume root new_image", "server volume root", "new_image"),
    ),
    Scenario(
        "rebuild one that is half away",
        REBUILD_SERVER,
        one_that_is_half_away,
        rebuild,
        wants=Wants("server volume data", "server volume data", waits=True),
    ),
]
EVENTS = [
    Story(
        "instance.rebuild",
        "accepted; rebuilt; failed, whatever became of the server",
        about="server_id",
        sagas=(REBUILD_SERVER, RENEW_SERVER, EVACUATE),
        phases=WITH_ERROR,
    ),
]
CROWD = [
    on_servers.case(
        "rebuild",
        {"imageRef": "{image}", "name": "{case}-#"},
        look=on_servers.AT,
        one='"{case}-#"',
    ),
]
