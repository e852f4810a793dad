"""Scenarios of servers with shares: attached, detached, started, stopped, deleted with them."""

from __future__ import annotations

from functools import partial
from typing import Any

from mooring.compute.delete.sagas.delete_server import DELETE_SERVER
from mooring.compute.power.sagas.power import (
    INSIST_ON_REBOOT,
    INSIST_ON_STOP,
    REBOOT_SERVER,
    START_SERVER,
    STOP_SERVER,
)
from mooring.compute.power.sagas.reset_state import RESET_STATE
from mooring.compute.shares.sagas.attach_share import ATTACH_SHARE
from mooring.compute.shares.sagas.detach_share import DETACH_SHARE
from tests.crowd import on_servers
from tests.crowd.case import Ask, Case
from tests.laws import basics, extend_scenarios
from tests.laws.share_scenarios import a_new_share
from tests.laws.sites import COMPUTE, SERVER_OR_NONE, TOLD, Scenario, Site, Wants, hints_of
from tests.laws.told import WITH_ERROR, Story

_VERSION = "2.97"
_SHARES = f"{COMPUTE}/servers/{{server}}/shares"
_ACTION = f"{COMPUTE}/servers/{{server}}/action"


async def a_server_and_share(site: Site) -> None:
    """A server that is off, and a share of nobody."""
    await a_new_share(site)
    server: dict[str, Any] = {"name": "new", "imageRef": site.names["image"], **TOLD}
    server["flavorRef"] = site.names["flavor"]
    body = {"server": server, **hints_of(site)}
    made = await site.get("POST", f"{COMPUTE}/servers", body)
    site.names["server"] = made["server"]["id"]
    await site.get("POST", _ACTION, {"os-stop": None})


async def a_server_with_share(site: Site) -> None:
    """A server that is off, and has a share."""
    await a_server_and_share(site)
    assert (await attach(site)).status == 201
    await site.cloud.settle()


async def a_running_server_with_share(site: Site) -> None:
    """A server that runs with a share."""
    await a_server_with_share(site)
    await site.get("POST", _ACTION, {"os-start": None})


async def a_laden_server_with_share(site: Site) -> None:
    """A server that runs with a share and a volume."""
    await a_running_server_with_share(site)
    await basics.a_volume(site)
    await basics.attach(site)
    await site.cloud.settle()


async def insist_on_stop(site: Site) -> Any:
    return await extend_scenarios.insist_on_stop(site)


async def insist_on_reboot(site: Site) -> Any:
    return await basics.insist_on_reboot(site)


async def attach(site: Site) -> Any:
    body = {"share": {"share_id": site.names["share"], "tag": "papers"}}
    return await site.ask("POST", _SHARES, body, version=_VERSION)


async def detach(site: Site) -> Any:
    return await site.ask("DELETE", f"{_SHARES}/{{share}}", version=_VERSION)


async def act(site: Site, action: str, value: Any = None, user: str = "demo") -> Any:
    return await site.ask("POST", _ACTION, {action: value}, user=user)


async def delete(site: Site) -> Any:
    return await site.ask("DELETE", f"{COMPUTE}/servers/{{server}}")


async def reset_detaching(site: Site) -> Any:
    """Reset the state of a server that loses a share; until then the storage keeps nobody out."""
    site.silence("DELETE", "?pool=shared", b"")
    await detach(site)
    await site.until_waiting(DETACH_SHARE.name)
    answer = await act(site, "os-resetState", {"state": "error"}, "admin")
    site.silence("", "", b"")
    return answer


_EITHER = ("faults", "instance_actions", "share_mappings", "share_places", "access_rules")
"""It may be detached, or as it was, before the reset gets there."""
_GROWS = ("messages", "faults", "instance_actions", "volumes")
"""What the extend that is stopped may have written before."""
_ON_BOTH = Wants("server share", "server share")
_ON_SERVER = Wants("server share", "server")
GUEST_SHARES = [
    Scenario(
        "attach share", ATTACH_SHARE, a_server_and_share, attach, ("messages",), wants=_ON_BOTH
    ),
    Scenario(
        "detach share", DETACH_SHARE, a_server_with_share, detach, ("messages",), wants=_ON_BOTH
    ),
    Scenario(
        "start with a share",
        START_SERVER,
        a_server_with_share,
        partial(act, action="os-start"),
        wants=_ON_SERVER,
    ),
    Scenario(
        "stop with a share",
        STOP_SERVER,
        a_running_server_with_share,
        partial(act, action="os-stop"),
        wants=_ON_SERVER,
    ),
    Scenario(
        "reboot with a share",
        REBOOT_SERVER,
        a_running_server_with_share,
        partial(act, action="reboot", value={"type": "HARD"}),
        wants=_ON_SERVER,
    ),
    Scenario(
        "delete with a share",
        DELETE_SERVER,
        a_running_server_with_share,
        delete,
        ("messages",),
        wants=_ON_BOTH,
    ),
    Scenario(
        "insist on reboot with a share",
        INSIST_ON_REBOOT,
        a_running_server_with_share,
        insist_on_reboot,
        ("faults", "instance_actions"),
        wants=_ON_SERVER,
    ),
    Scenario(
        "insist on stop with a share",
        INSIST_ON_STOP,
        a_laden_server_with_share,
        insist_on_stop,
        (*_GROWS, "sound_volumes", "storage", "block_devices", "disk_sizes"),
        wants=Wants("server volume share", "server volume"),
    ),
    Scenario(
        "reset a detaching server",
        RESET_STATE,
        a_server_with_share,
        reset_detaching,
        (*_EITHER, "hosted_shares", "resource_locks", "messages", *SERVER_OR_NONE),
        wants=_ON_BOTH,
    ),
]
EVENTS = [
    Story(
        "instance.share_attach",
        "the host begins to be let in; is let in; kept out again. With `share_id`",
        about="share_id",
        sagas=(ATTACH_SHARE,),
        phases=WITH_ERROR,
    ),
    Story(
        "instance.share_detach",
        "the share begins to go; is gone; stays. With `share_id`",
        about="share_id",
        sagas=(DETACH_SHARE,),
        phases=WITH_ERROR,
    ),
]
_AT = f"{on_servers.AT}/shares"
_FOLDERS = (
    on_servers.SERVER,
    on_servers.act("os-stop"),
    Ask(
        "POST",
        "/share/v2/shares",
        {"share": {"share_proto": "NFS", "size": 1, "name": "{case}#"}},
        "folder#",
        "share.id",
    ),
)
"""A server that is off, and a share for each client."""
_ADD = Ask("POST", _AT, {"share": {"share_id": "{folder#}"}})
CROWD = [
    Case(
        route=f"POST {on_servers.ALL}/shares",
        before=_FOLDERS,
        path=_AT,
        body=_ADD.body,
        look=_AT,
        kept="{folder#}",
    ),
    Case(
        route=f"DELETE {on_servers.ALL}/shares/{{share_id}}",
        before=(*_FOLDERS, _ADD),
        path=f"{_AT}/{{folder#}}",
        look=_AT,
        gone="{folder#}",
    ),
]
