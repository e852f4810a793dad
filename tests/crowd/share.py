"""The share service's writing routes behind which no operation stands."""

from __future__ import annotations

from typing import Any

from tests.crowd import on_shares
from tests.crowd.alike import metadata_of, types_of
from tests.crowd.case import Ask, Case
from tests.crowd.on_shares import OLD, RULE, SHARE, SNAPSHOT

_AT, _ALL = on_shares.AT, on_shares.ALL
_SNAP_AT, _SNAP_ALL = on_shares.SNAP_AT, on_shares.SNAP_ALL
_RULE_AT, _RULE_ALL = "/share-access-rules/{rule}", "/share-access-rules/{access_id}"
_LOCK = {"resource_lock": {"resource_id": "{s}"}}
LOCK = Ask("POST", "/resource-locks", _LOCK, "lock", "resource_lock.id")
LOCKS = Ask("POST", "/resource-locks", _LOCK, "lock#", "resource_lock.id")
_TOO_LARGE = Ask(
    "POST", "/shares", {"share": {"share_proto": "NFS", "size": 1_000_000}}, "s#", "share.id"
)
_TOLD = Ask("GET", "/messages?resource_id={s#}", None, "told#", "messages.0.id")
_SPECS = {"driver_handles_share_servers": "False"}
_PRIVATE = {"extra_specs": _SPECS, "share_type_access:is_public": False}
TYPE = Ask(
    "POST", "/types", {"share_type": {"name": "{case}", **_PRIVATE}}, "type", "share_type.id"
)
TYPES = Ask(
    "POST",
    "/types",
    {"share_type": {"name": "{case}#", "extra_specs": _SPECS}},
    "type#",
    "share_type.id",
)


def _renamed(method: str, route: str, path: str, body: Any = None, **how: Any) -> list[Case]:
    """Return the cases of a route, under both its paths. `look` stays in the newest version."""
    return [
        Case(route=f"{method} /{prefix}{route}", path=f"/{prefix}{path}", body=body, **more, **how)
        for prefix, more in (("", {}), ("os-", {"version": OLD}))
    ]


_ACTIONS = [
    Case(
        route=f"POST {_ALL}/action reset_task_state",
        before=(SHARE,),
        path=f"{_AT}/action",
        body={"reset_task_state": {"task_state": None}},
    ),
]
_RULES = [
    Case(
        route=f"POST {_ALL}/action access_list",
        before=(SHARE, RULE),
        path=f"{_AT}/action",
        body={"access_list": None},
        version="2.44",
    ),
    Case(
        route=f"POST {_ALL}/action os-access_list",
        before=(SHARE, RULE),
        path=f"{_AT}/action",
        body={"os-access_list": None},
        version=OLD,
    ),
    Case(
        route=f"PUT {_RULE_ALL}/metadata",
        before=(SHARE, RULE),
        path=f"{_RULE_AT}/metadata",
        body={"metadata": {"key#": "value#"}},
        look=_RULE_AT,
        kept='"key#": "value#"',
    ),
    Case(
        route=f"DELETE {_RULE_ALL}/metadata/{{key}}",
        before=(
            SHARE,
            RULE,
            Ask("PUT", f"{_RULE_AT}/metadata", {"metadata": {f"key{n}": "v" for n in range(8)}}),
        ),
        path=f"{_RULE_AT}/metadata/key#",
        look=_RULE_AT,
        gone='"key#"',
    ),
]
_SNAPSHOTS = [
    Case(
        route=f"PUT {_SNAP_ALL}",
        before=(SHARE, SNAPSHOT),
        path=_SNAP_AT,
        body={"snapshot": {"display_name": "{case}-#"}},
        look=_SNAP_AT,
        one='"{case}-#"',
    ),
    *metadata_of(_SNAP_AT, _SNAP_ALL, SHARE, SNAPSHOT),
    *on_shares.both(
        f"POST {_SNAP_ALL}/action",
        "reset_status",
        {"status": "error"},
        path=f"{_SNAP_AT}/action",
        before=(SHARE, SNAPSHOT),
        look=_SNAP_AT,
        kept='"error"',
    ),
]
CASES = [
    Case(
        route=f"PUT {_ALL}",
        before=(SHARE,),
        path=_AT,
        body={"share": {"display_name": "{case}-#"}},
        look=_AT,
        one='"{case}-#"',
    ),
    *metadata_of(_AT, _ALL, SHARE),
    *_ACTIONS,
    *_RULES,
    *_SNAPSHOTS,
    *types_of("share_type", TYPE, TYPES, "share_type_access"),
    *_renamed("PUT", "quota-sets/{project_id}", "quota-sets/crowd", {"quota_set": {"shares": 99}}),
    *_renamed("DELETE", "quota-sets/{project_id}", "quota-sets/crowd"),
    *_renamed(
        "PUT",
        "quota-class-sets/{class_name}",
        "quota-class-sets/default",
        {"quota_class_set": {"shares": 1000}},
    ),
    *_renamed("PUT", "services/disable", "services/disable", {"host": "{shares_at}"}),
    *_renamed("PUT", "services/enable", "services/enable", {"host": "{shares_at}"}),
    Case(
        route="POST /resource-locks",
        before=(SHARE,),
        body={"resource_lock": {"resource_id": "{s}", "lock_reason": "{case}#"}},
        look="/resource-locks",
        kept='"{case}#"',
    ),
    Case(
        route="PUT /resource-locks/{lock_id}",
        before=(SHARE, LOCK),
        path="/resource-locks/{lock}",
        body={"resource_lock": {"lock_reason": "{case}-#"}},
        look="/resource-locks/{lock}",
        one='"{case}-#"',
    ),
    Case(
        route="DELETE /resource-locks/{lock_id}",
        before=(SHARE, LOCKS),
        path="/resource-locks/{lock#}",
        look="/resource-locks",
        gone="{lock#}",
    ),
    Case(
        route="DELETE /messages/{message_id}",
        before=(_TOO_LARGE, _TOLD),
        path="/messages/{told#}",
        look="/messages",
        gone="{told#}",
    ),
]
