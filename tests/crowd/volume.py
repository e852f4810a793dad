"""The volume service's writing routes."""

from __future__ import annotations

from typing import Any

from tests.crowd.alike import metadata_of, types_of
from tests.crowd.case import Ask, Case

VOLUMES = Ask("POST", "/volumes", {"volume": {"size": 1, "name": "{case}#"}}, "v#", "volume.id")
VOLUME = Ask("POST", "/volumes", {"volume": {"size": 1, "name": "{case}"}}, "v", "volume.id")
FULL = Ask(
    "POST",
    "/volumes",
    {"volume": {"size": 1, "name": "{case}", "imageRef": "{image}"}},
    "v",
    "volume.id",
)
_AT, _ALL = "/volumes/{v}", "/volumes/{volume_id}"
_SNAP_AT, _SNAP_ALL = "/snapshots/{snap}", "/snapshots/{snapshot_id}"
_SERVER = "00000000-0000-4000-8000-0000000000a#"
SNAPSHOT = Ask(
    "POST",
    "/snapshots",
    {"snapshot": {"volume_id": "{v}", "name": "{case}"}},
    "snap",
    "snapshot.id",
)
SNAPSHOTS = Ask(
    "POST",
    "/snapshots",
    {"snapshot": {"volume_id": "{v}", "name": "{case}#"}},
    "snap#",
    "snapshot.id",
)
TYPE = Ask(
    "POST",
    "/types",
    {"volume_type": {"name": "{case}", "os-volume-type-access:is_public": False}},
    "type",
    "volume_type.id",
)
TYPES = Ask("POST", "/types", {"volume_type": {"name": "{case}#"}}, "type#", "volume_type.id")
SPARE = Ask("GET", "/scheduler-stats/get_pools", None, "spare", "pools.1.name")
_RESERVED = Ask(
    "POST", "/attachments", {"attachment": {"volume_uuid": "{v}"}}, "attachment", "attachment.id"
)
_EACH_RESERVED = Ask(
    "POST", "/attachments", {"attachment": {"volume_uuid": "{v#}"}}, "attachment#", "attachment.id"
)
CONNECTOR = {"host": "h1", "initiator": "iqn.1993-08.org.debian:01:{case}", "ip": "127.0.0.1"}
_CONNECT = {"attachment": {"connector": CONNECTOR}}


def act(action: str, value: Any = None, *, on: str = _AT) -> Ask:
    """Return the request of an action."""
    return Ask("POST", f"{on}/action", {action: value})


def _action(action: str, value: Any = None, *before: Ask, **more: Any) -> Case:
    """Return the case of an action of volumes, on one volume unless `path` says otherwise."""
    how: dict[str, Any] = {"path": f"{_AT}/action", "before": (VOLUME, *before), **more}
    return Case(route=f"POST {_ALL}/action {action}", body={action: value}, **how)


def _on_each(action: str, value: Any = None, *before: Ask, **more: Any) -> Case:
    return _action(
        action, value, **{"path": "/volumes/{v#}/action", "before": (VOLUMES, *before), **more}
    )


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
    _action("os-extend", {"new_size": 2}, alone=True, look=_AT, kept='"size": 2'),
    _action("os-extend_volume_completion", {"error": False}, refused=True),
    _action("os-reserve", alone=True, look=_AT, kept='"attaching"'),
    _action("os-unreserve", None, act("os-reserve"), look=_AT, kept='"available"'),
    _action(
        "os-attach",
        {"mountpoint": "/dev/vd#", "instance_uuid": _SERVER},
        act("os-reserve"),
        alone=True,
        look=_AT,
        kept=_SERVER,
    ),
    _action(
        "os-begin_detaching",
        None,
        act("os-attach", {"mountpoint": "/dev/vdb", "instance_uuid": _SERVER.replace("#", "0")}),
        alone=True,
        look=_AT,
        kept='"detaching"',
    ),
    _action(
        "os-roll_detaching",
        None,
        act("os-attach", {"mountpoint": "/dev/vdb", "instance_uuid": _SERVER.replace("#", "0")}),
        act("os-begin_detaching"),
        look=_AT,
        kept='"in-use"',
    ),
    _action(
        "os-detach",
        {},
        act("os-attach", {"mountpoint": "/dev/vdb", "instance_uuid": _SERVER.replace("#", "0")}),
        look=_AT,
        kept='"available"',
    ),
    _action(
        "os-force_detach",
        {},
        act("os-attach", {"mountpoint": "/dev/vdb", "instance_uuid": _SERVER.replace("#", "0")}),
        look=_AT,
        kept='"available"',
    ),
    _on_each("os-initialize_connection", {"connector": CONNECTOR}),
    _on_each(
        "os-terminate_connection",
        {"connector": CONNECTOR},
        Ask("POST", "/volumes/{v#}/action", {"os-initialize_connection": {"connector": CONNECTOR}}),
    ),
    _action("os-reset_status", {"status": "error"}, look=_AT, kept='"error"'),
    _on_each("os-force_delete", look="/volumes", gone="{v#}"),
    _action("os-set_bootable", {"bootable": True}, look=_AT, kept='"bootable": "true"'),
    _action("os-update_readonly_flag", {"readonly": True}, look=_AT, kept='"readonly": "True"'),
    _action(
        "os-set_image_metadata", {"metadata": {"key#": "value#"}}, look=_AT, kept='"key#": "value#"'
    ),
    _action("os-show_image_metadata", None, before=(FULL,)),
    _action(
        "os-unset_image_metadata",
        {"key": "key#"},
        act("os-set_image_metadata", {"metadata": {f"key{n}": "value" for n in range(8)}}),
        look=_AT,
        gone='"key#"',
    ),
    Case(
        route=f"POST {_ALL}/action revert",
        before=(VOLUME, SNAPSHOT),
        path=f"{_AT}/action",
        body={"revert": {"snapshot_id": "{snap}"}},
        look=_AT,
        kept='"available"',
    ),
    _on_each(
        "os-volume_upload_image",
        {"image_name": "{case}#", "disk_format": "qcow2"},
        look="/volumes/{v#}",
        kept='"available"',
    ),
    _on_each(
        "os-retype",
        {"new_type": "{type}"},
        TYPE,
        look="/volumes/{v#}",
        kept='"volume_type": "{case}"',
    ),
    _on_each(
        "os-migrate_volume",
        {"host": "{spare}"},
        SPARE,
        look="/volumes/{v#}",
        kept="{spare}",
    ),
    _action("os-migrate_volume_completion", {"new_volume": "{v}"}, refused=True),
    _action("os-reimage", {"image_id": "{image}"}, look=_AT, kept='"available"'),
]
_ATTACHMENTS = [
    Case(
        route="POST /attachments",
        before=(VOLUMES,),
        body={"attachment": {"volume_uuid": "{v#}"}},
        look="/attachments/detail",
        kept="{v#}",
    ),
    Case(
        route="PUT /attachments/{attachment_id}",
        before=(VOLUMES, _EACH_RESERVED),
        path="/attachments/{attachment#}",
        body=_CONNECT,
    ),
    Case(
        route="POST /attachments/{attachment_id}/action os-complete",
        before=(VOLUMES, _EACH_RESERVED, Ask("PUT", "/attachments/{attachment#}", _CONNECT)),
        path="/attachments/{attachment#}/action",
        body={"os-complete": None},
        look="/attachments/{attachment#}",
        kept='"attached"',
    ),
    Case(
        route="DELETE /attachments/{attachment_id}",
        before=(VOLUMES, _EACH_RESERVED),
        path="/attachments/{attachment#}",
        look="/attachments",
        gone="{attachment#}",
    ),
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
        route="POST /snapshots",
        before=(VOLUME,),
        body={"snapshot": {"volume_id": "{v}", "name": "{case}-new#"}},
        look="/snapshots",
        kept='"{case}-new#"',
    ),
    Case(
        route=f"PUT {_SNAP_ALL}",
        before=(VOLUME, SNAPSHOT),
        path=_SNAP_AT,
        body={"snapshot": {"name": "{case}-#"}},
        look=_SNAP_AT,
        one='"{case}-#"',
    ),
    Case(
        route=f"DELETE {_SNAP_ALL}",
        before=(VOLUME, SNAPSHOTS),
        path="/snapshots/{snap#}",
        look="/snapshots",
        gone="{snap#}",
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
        route=f"POST {_SNAP_ALL}/action os-force_delete",
        before=(VOLUME, SNAPSHOTS),
        path="/snapshots/{snap#}/action",
        body={"os-force_delete": None},
        look="/snapshots",
        gone="{snap#}",
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
        route="POST /volumes",
        body={"volume": {"size": 1, "name": "{case}-new#"}},
        look="/volumes",
        kept='"{case}-new#"',
    ),
    Case(
        route=f"PUT {_ALL}",
        before=(VOLUME,),
        path=_AT,
        body={"volume": {"name": "{case}-#"}},
        look=_AT,
        one='"{case}-#"',
    ),
    Case(
        route=f"DELETE {_ALL}",
        before=(VOLUMES,),
        path="/volumes/{v#}",
        look="/volumes",
        gone="{v#}",
    ),
    *_metadata(_AT, _ALL, VOLUME),
    *_ACTIONS,
    *_ATTACHMENTS,
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
        path="/messages/00000000-0000-4000-8000-00000000000#",
        refused=True,
    ),
]
