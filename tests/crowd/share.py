"""The share service's writing routes."""

from __future__ import annotations

from typing import Any

from tests.crowd.alike import metadata_of, types_of
from tests.crowd.case import Ask, Case

_NEW = {"share_proto": "NFS", "size": 1}
SHARES = Ask("POST", "/shares", {"share": {**_NEW, "name": "{case}#"}}, "s#", "share.id")
SHARE = Ask("POST", "/shares", {"share": {**_NEW, "name": "{case}"}}, "s", "share.id")
_AT, _ALL = "/shares/{s}", "/shares/{share_id}"
_EACH = "/shares/{s#}"
_CLIENT = {"access_type": "ip", "access_to": "10.0.0.1"}
RULES = Ask("POST", f"{_EACH}/action", {"allow_access": _CLIENT}, "rule#", "access.id")
RULE = Ask("POST", f"{_AT}/action", {"allow_access": _CLIENT}, "rule", "access.id")
_RULE_AT, _RULE_ALL = "/share-access-rules/{rule}", "/share-access-rules/{access_id}"
_LISTED = "/share-access-rules?share_id={s}"
_SNAP_AT, _SNAP_ALL = "/snapshots/{snap}", "/snapshots/{snapshot_id}"
SNAPSHOT = Ask("POST", "/snapshots", {"snapshot": {"share_id": "{s}"}}, "snap", "snapshot.id")
SNAPSHOTS = Ask("POST", "/snapshots", {"snapshot": {"share_id": "{s}"}}, "snap#", "snapshot.id")
_LOCK = {"resource_lock": {"resource_id": "{s}"}}
LOCK = Ask("POST", "/resource-locks", _LOCK, "lock", "resource_lock.id")
LOCKS = Ask("POST", "/resource-locks", _LOCK, "lock#", "resource_lock.id")
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
_OLD = "2.6"
"""The last version in which names have `os-` before them."""


def act(action: str, value: Any = None, *, on: str = _AT) -> Ask:
    """Return the request of an action."""
    return Ask("POST", f"{on}/action", {action: value})


def _action(action: str, value: Any = None, *before: Ask, **more: Any) -> list[Case]:
    """Return the cases of an action of shares, under both its names."""
    how: dict[str, Any] = {"path": f"{_AT}/action", "before": (SHARE, *before), **more}
    return _both(f"POST {_ALL}/action", action, value, how)


def _both(route: str, action: str, value: Any, how: dict[str, Any]) -> list[Case]:
    old = f"os-{action}"
    return [
        Case(route=f"{route} {action}", body={action: value}, **how),
        Case(route=f"{route} {old}", body={old: value}, **how, version=_OLD),
    ]


def _renamed(method: str, route: str, path: str, body: Any = None, **how: Any) -> list[Case]:
    """Return the cases of a route, under both its paths. `look` stays in the newest version."""
    return [
        Case(route=f"{method} /{prefix}{route}", path=f"/{prefix}{path}", body=body, **more, **how)
        for prefix, more in (("", {}), ("os-", {"version": _OLD}))
    ]


_INSTANCE = "POST /share_instances/{instance_id}/action"
_ON_EACH: dict[str, Any] = {"path": f"{_EACH}/action"}
_ACTIONS = [
    *_action("extend", {"new_size": 2}, alone=True, look=_AT, kept='"size": 2'),
    *_action(
        "shrink",
        {"new_size": 1},
        act("extend", {"new_size": 2}),
        alone=True,
        look=_AT,
        kept='"size": 1',
    ),
    *_action("reset_status", {"status": "error"}, look=_AT, kept='"error"'),
    *_action(
        "force_delete", None, **{**_ON_EACH, "before": (SHARES,), "look": "/shares", "gone": "{s#}"}
    ),
    *_both(
        _INSTANCE,
        "reset_status",
        {"status": "error"},
        {"before": (SHARE,), "path": "/share_instances/{s}/action", "look": _AT, "kept": '"error"'},
    ),
    *_both(
        _INSTANCE,
        "force_delete",
        None,
        {
            "before": (SHARES,),
            "path": "/share_instances/{s#}/action",
            "look": "/shares",
            "gone": "{s#}",
        },
    ),
    Case(
        route=f"POST {_ALL}/action reset_task_state",
        before=(SHARE,),
        path=f"{_AT}/action",
        body={"reset_task_state": {"task_state": None}},
    ),
]
_RULES = [
    Case(
        route=f"POST {_ALL}/action allow_access",
        before=(SHARE,),
        path=f"{_AT}/action",
        body={"allow_access": {**_CLIENT, "access_to": "10.0.0.#"}},
        look=_LISTED,
        kept='"10.0.0.#"',
    ),
    Case(
        route=f"POST {_ALL}/action os-allow_access",
        before=(SHARE,),
        path=f"{_AT}/action",
        body={"os-allow_access": _CLIENT},
        alone=True,
        version=_OLD,
    ),
    Case(
        route=f"POST {_ALL}/action deny_access",
        before=(SHARES, RULES),
        path=f"{_EACH}/action",
        body={"deny_access": {"access_id": "{rule#}"}},
        look="/share-access-rules?share_id={s#}",
        gone="{rule#}",
    ),
    Case(
        route=f"POST {_ALL}/action os-deny_access",
        before=(SHARE, RULE),
        path=f"{_AT}/action",
        body={"os-deny_access": {"access_id": "{rule}"}},
        version=_OLD,
    ),
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
        version=_OLD,
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
        route="POST /snapshots",
        before=(SHARE,),
        body={"snapshot": {"share_id": "{s}", "name": "{case}-new#"}},
        look="/snapshots",
        kept='"{case}-new#"',
    ),
    Case(
        route=f"PUT {_SNAP_ALL}",
        before=(SHARE, SNAPSHOT),
        path=_SNAP_AT,
        body={"snapshot": {"display_name": "{case}-#"}},
        look=_SNAP_AT,
        one='"{case}-#"',
    ),
    Case(
        route=f"DELETE {_SNAP_ALL}",
        before=(SHARE, SNAPSHOTS),
        path="/snapshots/{snap#}",
        look="/snapshots",
        gone="{snap#}",
    ),
    *metadata_of(_SNAP_AT, _SNAP_ALL, SHARE, SNAPSHOT),
    *_both(
        f"POST {_SNAP_ALL}/action",
        "reset_status",
        {"status": "error"},
        {
            "path": f"{_SNAP_AT}/action",
            "before": (SHARE, SNAPSHOT),
            "look": _SNAP_AT,
            "kept": '"error"',
        },
    ),
    *_both(
        f"POST {_SNAP_ALL}/action",
        "force_delete",
        None,
        {
            "path": "/snapshots/{snap#}/action",
            "before": (SHARE, SNAPSHOTS),
            "look": "/snapshots",
            "gone": "{snap#}",
        },
    ),
]
CASES = [
    Case(
        route="POST /shares",
        body={"share": {**_NEW, "name": "{case}-new#"}},
        look="/shares",
        kept='"{case}-new#"',
    ),
    Case(
        route=f"PUT {_ALL}",
        before=(SHARE,),
        path=_AT,
        body={"share": {"display_name": "{case}-#"}},
        look=_AT,
        one='"{case}-#"',
    ),
    Case(route=f"DELETE {_ALL}", before=(SHARES,), path=_EACH, look="/shares", gone="{s#}"),
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
        path="/messages/00000000-0000-4000-8000-00000000000#",
        refused=True,
    ),
]
