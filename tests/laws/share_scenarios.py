"""Scenarios of shares: of their rules, their sizes and their snapshots."""

from __future__ import annotations

from functools import partial
from typing import Any

from mooring.share.access.sagas.apply_rule import APPLY_RULE
from mooring.share.access.sagas.deny_rule import DENY_RULE
from mooring.share.shares.sagas.create_share import CREATE_SHARE, CREATE_SHARE_FROM_SNAPSHOT
from mooring.share.shares.sagas.delete_share import DELETE_SHARE, FORCE_DELETE_SHARE
from mooring.share.shares.sagas.reset_status import RESET_STATUS
from mooring.share.shares.sagas.resize_share import EXTEND_SHARE, SHRINK_SHARE
from mooring.share.snapshots.sagas.create_snapshot import CREATE_SNAPSHOT
from mooring.share.snapshots.sagas.delete_snapshot import DELETE_SNAPSHOT
from tests.crowd import on_shares
from tests.crowd.case import Case
from tests.laws.sites import SHARE, Scenario, Site, Wants
from tests.laws.told import Story

_NEWEST = "2.82"
_CLIENT = {"access_type": "ip", "access_to": "10.0.0.1"}


async def nothing(site: Site) -> None:
    del site


async def a_new_share(site: Site) -> None:
    """A share of two GiB, which nobody may mount."""
    body = {"share": {"size": 2, "share_proto": "NFS", "name": "share"}}
    made = await site.get("POST", f"{SHARE}/shares", body, version=_NEWEST)
    site.names["share"] = made["share"]["id"]


async def a_share(site: Site) -> None:
    """A share of two GiB, with a rule."""
    await a_new_share(site)
    path = f"{SHARE}/shares/{{share}}/action"
    allowed = await site.get("POST", path, {"allow_access": _CLIENT}, version=_NEWEST)
    site.names["rule"] = allowed["access"]["id"]


async def a_locked_share(site: Site) -> None:
    """A share whose one rule is locked, as compute does."""
    await a_new_share(site)
    locked = {"lock_visibility": True, "lock_deletion": True, "lock_reason": "mine"}
    path, value = f"{SHARE}/shares/{{share}}/action", {"allow_access": {**_CLIENT, **locked}}
    allowed = await site.get("POST", path, value, version=_NEWEST)
    site.names["rule"] = allowed["access"]["id"]


async def a_picture(site: Site) -> None:
    """A share of two GiB, with a snapshot."""
    await a_share(site)
    body = {"snapshot": {"share_id": site.names["share"]}}
    made = await site.get("POST", f"{SHARE}/snapshots", body, version=_NEWEST)
    site.names["picture"] = made["snapshot"]["id"]


async def create(site: Site, **fields: str) -> Any:
    named = {key: value.format(**site.names) for key, value in fields.items()}
    body = {"share": {"size": 2, "share_proto": "NFS", "name": "new", **named}}
    return await site.ask("POST", f"{SHARE}/shares", body, version=_NEWEST)


async def delete(site: Site) -> Any:
    return await site.ask("DELETE", f"{SHARE}/shares/{{share}}")


async def act(site: Site, action: str, value: Any = None, user: str = "demo") -> Any:
    path = f"{SHARE}/shares/{{share}}/action"
    return await site.ask("POST", path, {action: value}, user=user, version=_NEWEST)


async def deny(site: Site) -> Any:
    value = {"access_id": site.names["rule"], "unrestrict": True}
    return await act(site, "deny_access", value)


async def reset_deleting(site: Site) -> Any:
    """Reset the status of a share that is being deleted; until then its host is silent."""
    site.silence("DELETE", f"{site.names['share']}?pool=shared", b"")
    await delete(site)
    answer = await reset(site)
    site.silence("", "", b"")
    return answer


async def reset_extending(site: Site) -> Any:
    """Reset the status of a share that grows; until then its host does not answer to that."""
    site.silence("PUT", "/size", b"size_gb")
    await act(site, "extend", {"new_size": 3})
    answer = await reset(site)
    site.silence("", "", b"")
    return answer


async def reset_denying(site: Site) -> Any:
    """Reset the status of a share whose rule is being denied; until then its host is silent."""
    site.silence("DELETE", f"{site.names['rule']}?pool=shared", b"")
    await deny(site)
    answer = await reset(site)
    site.silence("", "", b"")
    return answer


async def reset_forgetting(site: Site) -> Any:
    """Reset the status of a share whose snapshot is being deleted by a host that is silent."""
    site.silence("DELETE", f"{site.names['picture']}?pool=shared", b"")
    await delete_snapshot(site)
    answer = await reset(site)
    site.silence("", "", b"")
    return answer


async def take_snapshot(site: Site) -> Any:
    body = {"snapshot": {"share_id": site.names["share"], "name": "new"}}
    return await site.ask("POST", f"{SHARE}/snapshots", body, version=_NEWEST)


async def delete_snapshot(site: Site) -> Any:
    return await site.ask("DELETE", f"{SHARE}/snapshots/{{picture}}")


reset = partial(act, action="reset_status", value={"status": "error"}, user="admin")
_EITHER = ("shares", "hosted_shares", "export_locations", "access_rules", "messages")
"""It may be gone, or have grown, before the reset gets there."""
_ON_SHARE = Wants("share rule", "share")
_ON_RULE = Wants("share rule", "share", "rule")
_ON_PICTURE = Wants("share rule picture", "share", "picture")
SHARES = [
    Scenario("create share", CREATE_SHARE, nothing, create, wants=Wants()),
    Scenario("delete share", DELETE_SHARE, a_share, delete, wants=_ON_SHARE),
    Scenario(
        "force-delete share",
        FORCE_DELETE_SHARE,
        a_share,
        partial(act, action="force_delete", user="admin"),
        wants=_ON_SHARE,
    ),
    Scenario(
        "extend share",
        EXTEND_SHARE,
        a_share,
        partial(act, action="extend", value={"new_size": 3}),
        wants=_ON_SHARE,
    ),
    Scenario(
        "shrink share",
        SHRINK_SHARE,
        a_share,
        partial(act, action="shrink", value={"new_size": 1}),
        wants=_ON_SHARE,
    ),
    Scenario("reset share", RESET_STATUS, a_share, reset, wants=_ON_SHARE),
    Scenario(
        "reset a deleted share", RESET_STATUS, a_share, reset_deleting, _EITHER, wants=_ON_SHARE
    ),
    Scenario(
        "reset a growing share", RESET_STATUS, a_share, reset_extending, _EITHER, wants=_ON_SHARE
    ),
    Scenario(
        "reset a denying share", RESET_STATUS, a_share, reset_denying, _EITHER, wants=_ON_RULE
    ),
    Scenario(
        "reset a forgetting share",
        RESET_STATUS,
        a_picture,
        reset_forgetting,
        (*_EITHER, "share_snapshots"),
        wants=_ON_PICTURE,
    ),
    Scenario(
        "allow",
        APPLY_RULE,
        a_new_share,
        partial(act, action="allow_access", value=_CLIENT),
        wants=Wants("share", "share"),
    ),
    Scenario("deny", DENY_RULE, a_share, deny, wants=_ON_RULE),
    Scenario("deny a locked rule", DENY_RULE, a_locked_share, deny, wants=_ON_RULE),
    Scenario("take share snapshot", CREATE_SNAPSHOT, a_share, take_snapshot, wants=_ON_SHARE),
    Scenario(
        "delete share snapshot", DELETE_SNAPSHOT, a_picture, delete_snapshot, wants=_ON_PICTURE
    ),
    Scenario(
        "copy share snapshot",
        CREATE_SHARE_FROM_SNAPSHOT,
        a_picture,
        partial(create, snapshot_id="{picture}"),
        wants=_ON_PICTURE,
    ),
]
EVENTS = [
    Story(
        "share.create",
        "a pool was found; the share is available",
        about="share_id",
        sagas=(CREATE_SHARE, CREATE_SHARE_FROM_SNAPSHOT),
    ),
    Story(
        "share.delete",
        "begun; gone",
        about="share_id",
        sagas=(DELETE_SHARE, FORCE_DELETE_SHARE),
    ),
    Story(
        "share.extend",
        "its pool has the room; it has the new size",
        about="share_id",
        sagas=(EXTEND_SHARE,),
    ),
    Story("share.shrink", "begun; it has the new size", about="share_id", sagas=(SHRINK_SHARE,)),
]
_INSTANCE = "POST /share_instances/{instance_id}/action"
_EACH_GONE: dict[str, Any] = {"before": (on_shares.SHARES,), "look": "/shares", "gone": "{s#}"}
_ACTION = f"POST {on_shares.ALL}/action"
_RULES = [
    Case(
        route=f"{_ACTION} allow_access",
        before=(on_shares.SHARE,),
        path=f"{on_shares.AT}/action",
        body={"allow_access": {**_CLIENT, "access_to": "10.0.0.#"}},
        look="/share-access-rules?share_id={s}",
        kept='"10.0.0.#"',
    ),
    Case(
        route=f"{_ACTION} os-allow_access",
        before=(on_shares.SHARE,),
        path=f"{on_shares.AT}/action",
        body={"os-allow_access": _CLIENT},
        alone=True,
        version=on_shares.OLD,
    ),
    Case(
        route=f"{_ACTION} deny_access",
        before=(on_shares.SHARES, on_shares.RULES),
        path=f"{on_shares.EACH}/action",
        body={"deny_access": {"access_id": "{rule#}"}},
        look="/share-access-rules?share_id={s#}",
        gone="{rule#}",
    ),
    Case(
        route=f"{_ACTION} os-deny_access",
        before=(on_shares.SHARE, on_shares.RULE),
        path=f"{on_shares.AT}/action",
        body={"os-deny_access": {"access_id": "{rule}"}},
        version=on_shares.OLD,
    ),
]
_PICTURES = [
    Case(
        route="POST /snapshots",
        before=(on_shares.SHARE,),
        body={"snapshot": {"share_id": "{s}", "name": "{case}-new#"}},
        look="/snapshots",
        kept='"{case}-new#"',
    ),
    Case(
        route=f"DELETE {on_shares.SNAP_ALL}",
        before=(on_shares.SHARE, on_shares.SNAPSHOTS),
        path="/snapshots/{snap#}",
        look="/snapshots",
        gone="{snap#}",
    ),
    *on_shares.both(
        f"POST {on_shares.SNAP_ALL}/action",
        "force_delete",
        path="/snapshots/{snap#}/action",
        before=(on_shares.SHARE, on_shares.SNAPSHOTS),
        look="/snapshots",
        gone="{snap#}",
    ),
]
CROWD = [
    Case(
        route="POST /shares",
        body={"share": {**on_shares.NEW, "name": "{case}-new#"}},
        look="/shares",
        kept='"{case}-new#"',
    ),
    Case(
        route=f"DELETE {on_shares.ALL}",
        before=(on_shares.SHARES,),
        path=on_shares.EACH,
        look="/shares",
        gone="{s#}",
    ),
    *on_shares.cases("extend", {"new_size": 2}, alone=True, look=on_shares.AT, kept='"size": 2'),
    *on_shares.cases(
        "shrink",
        {"new_size": 1},
        on_shares.act("extend", {"new_size": 2}),
        alone=True,
        look=on_shares.AT,
        kept='"size": 1',
    ),
    *on_shares.cases("reset_status", {"status": "error"}, look=on_shares.AT, kept='"error"'),
    *on_shares.cases("force_delete", path=f"{on_shares.EACH}/action", **_EACH_GONE),
    *on_shares.both(
        _INSTANCE,
        "reset_status",
        {"status": "error"},
        before=(on_shares.SHARE,),
        path="/share_instances/{s}/action",
        look=on_shares.AT,
        kept='"error"',
    ),
    *on_shares.both(_INSTANCE, "force_delete", path="/share_instances/{s#}/action", **_EACH_GONE),
    *_RULES,
    *_PICTURES,
]
