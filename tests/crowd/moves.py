"""The compute service's writing routes of moves; there is one host only, so none gets anywhere."""

from __future__ import annotations

from tests.crowd.case import Ask, Case

_AT, _ALL = "/servers/{s}", "/servers/{server_id}"
_ROOT = {"source_type": "image", "destination_type": "volume", "uuid": "{image}"}
_DISKS = [{**_ROOT, "volume_size": 1, "boot_index": 0}]
_NEW = {"name": "{case}", "flavorRef": "{flavor}", "networks": "none"}
STOOD = Ask("POST", "/servers", {"server": {**_NEW, "imageRef": "{image}"}}, "s", "server.id")
BOOTED = Ask(
    "POST", "/servers", {"server": {**_NEW, "block_device_mapping_v2": _DISKS}}, "s", "server.id"
)
_LIVE = {"os-migrateLive": {"host": None, "block_migration": "auto"}}
MOVED = (
    BOOTED,
    Ask("POST", f"{_AT}/action", _LIVE),
    Ask("GET", "/os-migrations?instance_uuid={s}", None, "m", "migrations.0.id"),
)
"""A server, and its move that is over."""
_SIZED = (
    BOOTED,
    Ask("POST", f"{_AT}/action", {"resize": {"flavorRef": "84"}}),
)
"""A server that has another size, before its user's word."""
CASES = [
    Case(
        route=f"POST {_ALL}/action createImage",
        before=(STOOD,),
        path=f"{_AT}/action",
        body={"createImage": {"name": "{case}"}},
        look=_AT,
        kept='"ACTIVE"',
        alone=True,
    ),
    Case(
        route=f"POST {_ALL}/action createBackup",
        before=(STOOD,),
        path=f"{_AT}/action",
        body={"createBackup": {"name": "{case}", "backup_type": "daily", "rotation": 1}},
        look=_AT,
        kept='"ACTIVE"',
        alone=True,
    ),
    Case(
        route=f"POST {_ALL}/action migrate",
        before=(BOOTED,),
        path=f"{_AT}/action",
        body={"migrate": None},
        look=_AT,
        kept='"ACTIVE"',
    ),
    Case(
        route=f"POST {_ALL}/action resize",
        before=(BOOTED,),
        path=f"{_AT}/action",
        body={"resize": {"flavorRef": "84"}},
        look=_AT,
        kept='"VERIFY_RESIZE"',
        alone=True,
    ),
    Case(
        route=f"POST {_ALL}/action confirmResize",
        before=_SIZED,
        path=f"{_AT}/action",
        body={"confirmResize": None},
        look=_AT,
        kept='"ACTIVE"',
        alone=True,
    ),
    Case(
        route=f"POST {_ALL}/action revertResize",
        before=_SIZED,
        path=f"{_AT}/action",
        body={"revertResize": None},
        look=_AT,
        kept='"ACTIVE"',
        alone=True,
    ),
    Case(
        route=f"POST {_ALL}/action os-migrateLive",
        before=(BOOTED,),
        path=f"{_AT}/action",
        body=_LIVE,
        look=_AT,
        kept='"ACTIVE"',
    ),
    Case(
        route=f"DELETE {_ALL}/migrations/{{migration_id}}",
        before=MOVED,
        path=f"{_AT}/migrations/{{m}}",
        refused=True,
    ),
    Case(
        route=f"POST {_ALL}/migrations/{{migration_id}}/action force_complete",
        before=MOVED,
        path=f"{_AT}/migrations/{{m}}/action",
        body={"force_complete": None},
        refused=True,
    ),
    Case(
        route=f"POST {_ALL}/action shelve",
        before=(BOOTED,),
        path=f"{_AT}/action",
        body={"shelve": None},
        look=_AT,
        kept='"SHELVED_OFFLOADED"',
        alone=True,
    ),
    Case(
        route=f"POST {_ALL}/action shelveOffload",
        before=(BOOTED,),
        path=f"{_AT}/action",
        body={"shelveOffload": None},
        refused=True,
    ),
    Case(
        route=f"POST {_ALL}/action unshelve",
        before=(BOOTED, Ask("POST", f"{_AT}/action", {"shelve": None})),
        path=f"{_AT}/action",
        body={"unshelve": None},
        look=_AT,
        kept='"ACTIVE"',
        alone=True,
    ),
    # Nobody is dead here, and no fence is set.
    Case(
        route=f"POST {_ALL}/action evacuate",
        path="/servers/{server}/action",
        body={"evacuate": {}},
        refused=True,
    ),
    Case(
        route="PUT /mooring/evacuations/{host}",
        path="/mooring/evacuations/{host}",
        refused=True,
    ),
    Case(route="PUT /mooring/fences/{host}", path="/mooring/fences/{host}", refused=True),
]
