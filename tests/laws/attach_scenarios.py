"""Scenarios of volumes that servers get, and that are taken from them."""

from __future__ import annotations

from mooring.compute.volumes.sagas.attach_volume import ATTACH_VOLUME
from mooring.compute.volumes.sagas.detach_volume import DETACH_VOLUME
from mooring.compute.volumes.sagas.release_device import RELEASE_DEVICE
from tests.crowd import on_servers
from tests.crowd.case import Case
from tests.laws import basics
from tests.laws.sites import Scenario, Wants
from tests.laws.told import WITH_ERROR, Story

_TOLD = ("faults", "instance_actions")
_ON_BOTH = Wants("server volume", "server volume")
ATTACHES = [
    Scenario("attach", ATTACH_VOLUME, basics.a_server_and_volume, basics.attach, wants=_ON_BOTH),
    Scenario("detach", DETACH_VOLUME, basics.a_server_with_volume, basics.detach, wants=_ON_BOTH),
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
