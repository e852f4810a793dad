"""Scenarios of volumes that are made, deleted, and said to be in a status."""

from __future__ import annotations

from functools import partial

from mooring.volume.backups.sagas.create_from_backup import CREATE_VOLUME_FROM_BACKUP
from mooring.volume.volumes.sagas.create_volume import (
    CLONE_VOLUME,
    CREATE_VOLUME,
    CREATE_VOLUME_FROM_SNAPSHOT,
)
from mooring.volume.volumes.sagas.delete_volume import DELETE_VOLUME, FORCE_DELETE_VOLUME
from mooring.volume.volumes.sagas.reset_status import RESET_STATUS
from tests.crowd import on_volumes
from tests.crowd.case import Case
from tests.laws import basics
from tests.laws.sites import Scenario, Wants
from tests.laws.told import Event, Story

VOLUMES = [
    Scenario("create volume", CREATE_VOLUME, basics.nothing, basics.create_volume, wants=Wants()),
    Scenario(
        "create volume from image",
        CREATE_VOLUME,
        basics.nothing,
        partial(basics.create_volume, imageRef="{image}"),
        wants=Wants(),
    ),
    Scenario(
        "create volume for a server",
        CREATE_VOLUME,
        basics.nothing,
        basics.create_volume_for_server,
        wants=Wants(),
    ),
    Scenario(
        "delete volume",
        DELETE_VOLUME,
        basics.a_legacy_export,
        basics.delete_volume,
        wants=Wants("volume", "volume"),
    ),
    Scenario(
        "force-delete volume",
        FORCE_DELETE_VOLUME,
        basics.a_legacy_export,
        basics.force_delete,
        wants=Wants("volume", "volume"),
    ),
    Scenario(
        "reset status",
        RESET_STATUS,
        basics.a_connection,
        basics.reset_status,
        wants=Wants("attachment volume", "volume"),
    ),
]
EVENTS: list[Event] = [
    Story(
        "volume.create",
        "a pool was found; the volume is available",
        about="volume_id",
        sagas=(
            CREATE_VOLUME,
            CREATE_VOLUME_FROM_SNAPSHOT,
            CLONE_VOLUME,
            CREATE_VOLUME_FROM_BACKUP,
        ),
    ),
    Event("scheduler.create_volume", "no pool was found", phases=(), is_error=True),
    Story(
        "volume.delete",
        "accepted; gone",
        about="volume_id",
        sagas=(DELETE_VOLUME, FORCE_DELETE_VOLUME),
    ),
    Event("volume.reset_status", "a status was set by hand; `update` has what"),
]
CROWD = [
    Case(
        route="POST /volumes",
        body={"volume": {"size": 1, "name": "{case}-new#"}},
        look="/volumes",
        kept='"{case}-new#"',
    ),
    Case(
        route=f"DELETE {on_volumes.ALL}",
        before=(on_volumes.VOLUMES,),
        path="/volumes/{v#}",
        look="/volumes",
        gone="{v#}",
    ),
    on_volumes.each("os-force_delete", look="/volumes", gone="{v#}"),
    on_volumes.case("os-reset_status", {"status": "error"}, shows='"error"'),
]
