"""Scenarios of volumes that take the place of others under a running server."""

from __future__ import annotations

from functools import partial
from typing import Any

from mooring.compute.volumes.sagas.swap_migrated import SWAP_MIGRATED
from mooring.compute.volumes.sagas.swap_volume import SWAP_VOLUME
from tests.crowd import on_servers
from tests.crowd.case import Case
from tests.laws import basics
from tests.laws.sites import COMPUTE, Scenario, Site, Wants
from tests.laws.told import WITH_ERROR, Story


async def two_volumes(site: Site, size: int = 1) -> None:
    """A server that runs with a volume, and another one as large, or larger."""
    await basics.a_server_with_volume(site)
    await basics.a_volume(site, "spare", size=size)


async def swap(site: Site) -> Any:
    path = f"{COMPUTE}/servers/{{server}}/os-volume_attachments/{{volume}}"
    body = {"volumeAttachment": {"volumeId": site.names["spare"]}}
    return await site.ask("PUT", path, body, user="admin", version="2.1")


SWAPS = [
    Scenario(
        "swap",
        SWAP_VOLUME,
        two_volumes,
        swap,
        wants=Wants("server volume spare", "server volume spare"),
    ),
    Scenario(
        "swap for a larger one",
        SWAP_VOLUME,
        partial(two_volumes, size=2),
        swap,
        wants=Wants("server volume spare", "server volume spare"),
    ),
]
EVENTS = [
    Story(
        "instance.volume_swap",
        "the user was answered; swapped, and the old volume is free; taken back. With"
        " `old_volume_id` and `new_volume_id`",
        about="new_volume_id",
        sagas=(SWAP_VOLUME, SWAP_MIGRATED),
        phases=WITH_ERROR,
    ),
]
CROWD = [
    Case(
        route=f"PUT {on_servers.ALL}/os-volume_attachments/{{volume_id}}",
        before=(on_servers.SERVER, on_servers.VOLUMES, on_servers.OTHERS, on_servers.ATTACHED),
        path=f"{on_servers.DISKS}/{{v#}}",
        body={"volumeAttachment": {"volumeId": "{n#}", "delete_on_termination": True}},
        look=f"{on_servers.DISKS}/{{n#}}",
        kept='"delete_on_termination": true',
    ),
]
