"""Scenarios of volumes that servers get, and that are taken from them."""

from __future__ import annotations

from mooring.compute.volumes.sagas.attach_volume import ATTACH_VOLUME
from mooring.compute.volumes.sagas.detach_volume import DETACH_VOLUME
from mooring.compute.volumes.sagas.release_device import RELEASE_DEVICE
from tests.crowd import on_servers
from tests.crowd.case import Case
from tests.laws import basics
from tests.laws.sites import IMAGE, Scenario, Site, Wants
from tests.laws.told import WITH_ERROR, Story

_TOLD = ("faults", "instance_actions")
_ON_BOTH = Wants("server volume", "server volume")


async def a_server_on_scsi_and_volume(site: Site) -> None:
    """A server whose image asks for disks on scsi, and a volume."""
    said = {"name": "on scsi", "disk_format": "raw", "container_format": "bare"}
    image = await site.get("POST", f"{IMAGE}/images", {**said, "hw_disk_bus": "scsi"})
    site.names["image"] = image["id"]
    await site.get("PUT", f"{IMAGE}/images/{{image}}/file", bytes(65536))
    await basics.a_server_and_volume(site)


async def a_server_on_scsi_with_volume(site: Site) -> None:
    """The same, which has the volume."""
    await a_server_on_scsi_and_volume(site)
    await basics.attach(site)
    await site.cloud.settle()


ATTACHES = [
    Scenario("attach", ATTACH_VOLUME, basics.a_server_and_volume, basics.attach, wants=_ON_BOTH),
    Scenario("detach", DETACH_VOLUME, basics.a_server_with_volume, basics.detach, wants=_ON_BOTH),
    Scenario(
        "attach by scsi",
        ATTACH_VOLUME,
        a_server_on_scsi_and_volume,
        basics.attach,
        wants=_ON_BOTH,
    ),
    Scenario(
        "detach by scsi",
        DETACH_VOLUME,
        a_server_on_scsi_with_volume,
        basics.detach,
        wants=_ON_BOTH,
    ),
    Scenario(
        "detach badly",
        RELEASE_DEVICE,
        basics.a_server_with_volume,
        basics.detach_badly,
        _TOLD,
        wants=_ON_BOTH,
    ),
]
EVENTS = [
    Story(
        "instance.volume_attach",
        "the user was answered; attached; taken back",
        about="volume_id",
        sagas=(ATTACH_VOLUME,),
        phases=WITH_ERROR,
    ),
    Story(
        "instance.volume_detach",
        "the user was answered; detached",
        about="volume_id",
        sagas=(DETACH_VOLUME,),
    ),
]
CROWD = [
    Case(
        route=f"POST {on_servers.ALL}/os-volume_attachments",
        before=(on_servers.SERVER, on_servers.VOLUMES),
        path=on_servers.DISKS,
        body={"volumeAttachment": {"volumeId": "{v#}"}},
        look=on_servers.DISKS,
        kept="{v#}",
    ),
    Case(
        route=f"DELETE {on_servers.ALL}/os-volume_attachments/{{volume_id}}",
        before=(on_servers.SERVER, on_servers.VOLUMES, on_servers.ATTACHED),
        path=f"{on_servers.DISKS}/{{v#}}",
        look=on_servers.DISKS,
        gone="{v#}",
    ),
]
