"""Scenarios of images that are made of servers."""

from __future__ import annotations

from typing import Any

from mooring.compute.images.sagas.create_image import CREATE_IMAGE
from tests.laws import scenarios
from tests.laws.sites import COMPUTE, Scenario, Site


async def a_server(site: Site) -> None:
    """A server that runs, with its root disk on its host."""
    await scenarios.a_server(site)


async def a_server_that_is_off(site: Site) -> None:
    """The same, stopped."""
    await scenarios.a_server(site)
    await site.get("POST", f"{COMPUTE}/servers/{{server}}/action", {"os-stop": None})


async def make_image(site: Site) -> Any:
    body = {"createImage": {"name": "picture", "metadata": {"role": "db"}}}
    return await site.ask("POST", f"{COMPUTE}/servers/{{server}}/action", body, version="2.45")


SERVER_IMAGES = [
    Scenario("make image", CREATE_IMAGE, a_server, make_image),
    Scenario("make image of one that is off", CREATE_IMAGE, a_server_that_is_off, make_image),
]
