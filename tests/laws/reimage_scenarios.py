"""How the content of a volume comes to be replaced."""

from __future__ import annotations

from typing import Any

from mooring.volume.reimage.sagas.reimage_volume import REIMAGE_VOLUME
from tests.crowd import on_volumes
from tests.laws.sites import VOLUME, Scenario, Site, Wants


async def a_volume_with_content(site: Site) -> None:
    body = {"volume": {"size": 1, "name": "volume", "imageRef": site.names["image"]}}
    site.names["volume"] = (await site.get("POST", f"{VOLUME}/volumes", body))["volume"]["id"]


async def a_volume_held_by_nobody(site: Site) -> None:
    """Reserved by an attachment without a server: nobody settles it, however long it takes."""
    await a_volume_with_content(site)
    wanted = {"attachment": {"volume_uuid": site.names["volume"]}}
    held = await site.get("POST", f"{VOLUME}/attachments", wanted, version="3.44")
    site.names["attachment"] = held["attachment"]["id"]


async def reimage(site: Site) -> Any:
    value = {"image_id": site.names["image"], "reimage_reserved": True}
    path = f"{VOLUME}/volumes/{{volume}}/action"
    return await site.ask("POST", path, {"os-reimage": value}, version="3.68")


REIMAGES = [
    Scenario(
        "reimage", REIMAGE_VOLUME, a_volume_with_content, reimage, wants=Wants("volume", "volume")
    ),
    Scenario(
        "reimage a reserved one",
        REIMAGE_VOLUME,
        a_volume_held_by_nobody,
        reimage,
        wants=Wants("attachment volume", "volume"),
    ),
]
CROWD = [
    on_volumes.case("os-reimage", {"image_id": "{image}"}, shows='"available"'),
]
