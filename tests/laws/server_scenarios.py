"""Scenarios of servers that are made, and deleted."""

from __future__ import annotations

from mooring.compute.create.sagas.create_server import CREATE_SERVER
from mooring.compute.delete.sagas.delete_server import DELETE_SERVER
from tests.crowd import on_servers
from tests.crowd.case import Case
from tests.laws import basics
from tests.laws.sites import THIRD, Scenario, Wants
from tests.laws.told import WITH_ERROR, Event, Story

SERVERS = [
    Scenario(
        "create from image", CREATE_SERVER, basics.nothing, basics.create_server, wants=Wants()
    ),
    Scenario(
        "create in a group",
        CREATE_SERVER,
        basics.a_group,
        basics.create_member,
        wants=Wants("group", ""),
    ),
    Scenario(
        "create from volume",
        CREATE_SERVER,
        basics.a_bootable_volume,
        basics.boot_from_volume,
        wants=Wants("volume", "volume"),
    ),
    Scenario(
        "create with new volumes",
        CREATE_SERVER,
        basics.nothing,
        basics.boot_from_new_volumes,
        ("messages",),
        wants=Wants(),
    ),
    Scenario(
        "create on scsi",
        CREATE_SERVER,
        basics.nothing,
        basics.boot_on_scsi,
        ("messages",),
        wants=Wants(),
    ),
    Scenario(
        "create elsewhere",
        CREATE_SERVER,
        basics.a_member_elsewhere,
        basics.create_elsewhere,
        ("messages",),
        hosts=(THIRD,),
        wants=Wants("server group volume", "volume"),
    ),
    Scenario(
        "delete server",
        DELETE_SERVER,
        basics.a_server_with_two_volumes,
        basics.delete_server,
        outlives=("volume.delete_volume",),
        wants=Wants("server volume temporary", "server temporary", "server"),
    ),
]
EVENTS: list[Event] = [
    Story(
        "instance.create",
        "on its host; active; failed there",
        about="server_id",
        sagas=(CREATE_SERVER,),
        phases=WITH_ERROR,
    ),
    Event("compute_task.build_instances.error", "no host was found", phases=()),
    Story(
        "instance.delete",
        "accepted and begun; gone",
        about="server_id",
        sagas=(DELETE_SERVER,),
    ),
    Event("instance.shutdown", "within a deletion: the guest is ended"),
]
CROWD = [
    Case(
        route="POST /servers",
        body={"server": {**on_servers.NEW, "name": "{case}-new#"}},
        look="/servers",
        kept='"{case}-new#"',
    ),
    Case(
        route=f"DELETE {on_servers.ALL}",
        before=(on_servers.SERVERS,),
        path="/servers/{s#}",
        look="/servers",
        gone="{s#}",
    ),
    Case(
        route=f"POST {on_servers.ALL}/action forceDelete",
        before=(on_servers.SERVERS,),
        path="/servers/{s#}/action",
        body={"forceDelete": None},
        look="/servers",
        gone="{s#}",
    ),
]
