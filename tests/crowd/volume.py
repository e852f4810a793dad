"""The volume service's writing routes behind which no operation stands."""

from __future__ import annotations

from tests.crowd import on_volumes
from tests.crowd.alike import metadata_of, types_of
from tests.crowd.case import Ask, Case
from tests.crowd.on_volumes import SNAPSHOT, TYPE, VOLUME, VOLUMES

FULL = Ask(
    "POST",
    "/volumes",
    {"volume": {"size": 1, "name": "{case}", "imageRef": "{image}"}},
    "v",
    "volume.id",
)
_AT, _ALL = on_volumes.AT, on_volumes.ALL
_SNAP_AT, _SNAP_ALL = on_volumes.SNAP_AT, on_volumes.SNAP_ALL
_SERVER = "00000000-0000-4000-8000-0000000000a#"
_TOO_LARGE = Ask(
    "POST", "/volumes", {"volume": {"size": 1_000_000, "name": "{case}#"}}, "v#", "volume.id"
)
_TOLD = Ask("GET", "/messages?resource_uuid={v#}", None, "told#", "messages.0.id")
TYPES = Ask("POST", "/types", {"volume_type": {"name": "{case}#"}}, "type#", "volume_type.id")


def _metadata(at: str, route: str, *before: Ask) -> list[Case]:
    path = f"{at}/metadata"
    return [
        *metadata_of(at, route, *before),
        Case(
            route=f"PUT {route}/metadata/{{key}}",
            before=before,
            path=f"{path}/key#",
            body={"meta": {"key#": "value#"}},
            look=path,
            kept='"key#": "value#"',
        ),
    ]


_ACTIONS = [
    on_volumes.case("os-extend_volume_completion", {"error": False}, refused=True),
    on_volumes.case("os-reserve", alone=True, look=_AT, kept='"attaching"'),
    on_volumes.case(
        "os-unreserve", None, on_volumes.act("os-reserve"), look=_AT, kept='"available"'
    ),
    on_volumes.case(
        "os-attach",
        {"mountpoint": "/dev/vd#", "instance_uuid": _SERVER},
        on_volumes.act("os-reserve"),
        alone=True,
        look=_AT,
        kept=_SERVER,
    ),
    on_volumes.case(
        "os-begin_detaching",
        None,
        on_volumes.act(
            "os-attach", {"mountpoint": "/dev/vdb", "instance_uuid": _SERVER.replace("#", "0")}
        ),
        alone=True,
        look=_AT,
        kept='"detaching"',
    ),
    on_volumes.case(
        "os-roll_detaching",
        None,
        on_volumes.act(
            "os-attach", {"mountpoint": "/dev/vdb", "instance_uuid": _SERVER.replace("#", "0")}
        ),
        on_volumes.act("os-begin_detaching"),
        look=_AT,
        kept='"in-use"',
    ),
    on_volumes.case(
        "os-detach",
        {},
        on_volumes.act(
            "os-attach", {"mountpoint": "/dev/vdb", "instance_uuid": _SERVER.replace("#", "0")}
        ),
        look=_AT,
        kept='"available"',
    ),
    on_volumes.case(
        "os-force_detach",
        {},
        on_volumes.act(
            "os-attach", {"mountpoint": "/dev/vdb", "instance_uuid": _SERVER.replace("#", "0")}
        ),
        look=_AT,
        kept='"available"',
    ),
    on_volumes.case("os-set_bootable", {"bootable": True}, look=_AT, kept='"bootable": "true"'),
    on_volumes.case(
        "os-update_readonly_flag", {"readonly": True}, look=_AT, kept='"readonly": "True"'
    ),
    on_volumes.case(
        "os-set_image_metadata", {"metadata": {"key#": "value#"}}, look=_AT, kept='"key#": "value#"'
    ),
    on_volumes.case("os-show_image_metadata", None, before=(FULL,)),
    on_volumes.case(
        "os-unset_image_metadata",
        {"key": "key#"},
        on_volumes.act(
            "os-set_image_metadata", {"metadata": {f"key{n}": "value" for n in range(8)}}
        ),
        look=_AT,
        gone='"key#"',
    ),
    on_volumes.case("os-migrate_volume_completion", {"new_volume": "{v}"}, refused=True),
]
_OFFER = Ask(
    "POST",
    "/volume-transfers",
    {"transfer": {"volume_id": "{v#}"}},
    "transfer#",
    "transfer.id",
)
_TRANSFERS = [
    case
    for path in ("/volume-transfers", "/os-volume-transfer")
    for case in (
        Case(
            route=f"POST {path}",
            before=(VOLUMES,),
            body={"transfer": {"volume_id": "{v#}", "name": "{case}-new#"}},
            look=path,
            kept='"{case}-new#"',
        ),
        Case(
            route=f"DELETE {path}/{{transfer_id}}",
            before=(VOLUMES, _OFFER),
            path=f"{path}/{{transfer#}}",
            look=path,
            gone="{transfer#}",
        ),
        Case(
            route=f"POST {path}/{{transfer_id}}/accept",
            before=(VOLUMES, _OFFER),
            path=f"{path}/{{transfer#}}/accept",
            body={"accept": {"auth_key": "{case}#"}},
            refused=True,
        ),
    )
]
_SNAPSHOTS = [
    Case(
        route=f"PUT {_SNAP_ALL}",
        before=(VOLUME, SNAPSHOT),
        path=_SNAP_AT,
        body={"snapshot": {"name": "{case}-#"}},
        look=_SNAP_AT,
        one='"{case}-#"',
    ),
    *_metadata(_SNAP_AT, _SNAP_ALL, VOLUME, SNAPSHOT),
    Case(
        route=f"POST {_SNAP_ALL}/action os-reset_status",
        before=(VOLUME, SNAPSHOT),
        path=f"{_SNAP_AT}/action",
        body={"os-reset_status": {"status": "error"}},
        look=_SNAP_AT,
        kept='"error"',
    ),
    Case(
        route=f"POST {_SNAP_ALL}/action os-update_snapshot_status",
        before=(VOLUME, SNAPSHOT),
        path=f"{_SNAP_AT}/action",
        body={"os-update_snapshot_status": {"status": "creating"}},
        refused=True,
    ),
]
CASES = [
    Case(
        route=f"PUT {_ALL}",
        before=(VOLUME,),
        path=_AT,
        body={"volume": {"name": "{case}-#"}},
        look=_AT,
        one='"{case}-#"',
    ),
    *_metadata(_AT, _ALL, VOLUME),
    *_ACTIONS,
    *_SNAPSHOTS,
    *_TRANSFERS,
    *types_of("volume_type", TYPE, TYPES, "os-volume-type-access"),
    Case(
        route="PUT /os-quota-sets/{project_id}",
        path="/os-quota-sets/crowd",
        body={"quota_set": {"volumes": 100}},
        look="/os-quota-sets/crowd",
        kept='"volumes": 100',
    ),
    Case(
        route="DELETE /os-quota-sets/{project_id}",
        path="/os-quota-sets/crowd",
        before=(Ask("PUT", "/os-quota-sets/crowd", {"quota_set": {"volumes": 77}}),),
        look="/os-quota-sets/crowd",
        gone='"volumes": 77',
    ),
    Case(
        route="PUT /os-quota-class-sets/{class_name}",
        path="/os-quota-class-sets/default",
        body={"quota_class_set": {"volumes": 1000}},
        look="/os-quota-class-sets/default",
        kept='"volumes": 1000',
    ),
    Case(route="PUT /os-services/disable", body={"host": "{backend}"}, look="/os-services"),
    Case(
        route="PUT /os-services/disable-log-reason",
        body={"host": "{backend}", "disabled_reason": "reason#"},
        look="/os-services",
        one='"reason#"',
    ),
    Case(
        route="PUT /os-services/enable",
        body={"host": "{backend}"},
        look="/os-services",
        kept='"enabled"',
    ),
    Case(
        route="DELETE /messages/{message_id}",
        before=(_TOO_LARGE, _TOLD),
        path="/messages/{told#}",
        look="/messages",
        gone="{told#}",
    ),
]
