"""Servers that stand ready for eight clients, and the cases of what is done to one."""

from __future__ import annotations

from typing import Any

from tests.crowd.case import Ask, Case

AT, ALL = "/servers/{s}", "/servers/{server_id}"
BARE = {"name": "{case}", "flavorRef": "{flavor}", "networks": "none"}
NEW = {**BARE, "imageRef": "{image}"}
SERVER = Ask("POST", "/servers", {"server": NEW}, "s", "server.id")
SERVERS = Ask("POST", "/servers", {"server": {**NEW, "name": "{case}#"}}, "s#", "server.id")
_ROOT = {"source_type": "image", "destination_type": "volume", "uuid": "{image}"}
_DISKS = [{**_ROOT, "volume_size": 1, "boot_index": 0}]
BOOTED = Ask(
    "POST", "/servers", {"server": {**BARE, "block_device_mapping_v2": _DISKS}}, "s", "server.id"
)
"""One that boots from a volume."""
_VOLUME = {"volume": {"size": 1, "name": "{case}#"}}
VOLUMES, OTHERS = (
    Ask("POST", "/volume/v3/volumes", _VOLUME, saves, "volume.id") for saves in ("v#", "n#")
)
DISKS = f"{AT}/os-volume_attachments"
ATTACHED = Ask("POST", DISKS, {"volumeAttachment": {"volumeId": "{v#}"}})


def act(action: str, value: Any = None) -> Ask:
    """Return the request of an action of one server."""
    return Ask("POST", f"{AT}/action", {action: value})


def case(
    action: str,
    value: Any = None,
    *before: Ask,
    on: Ask = SERVER,
    shows: str = "",
    **more: Any,
) -> Case:
    """Return the case of an action of one server, which then shows something."""
    shown = {"look": AT, "kept": shows} if shows else {}
    return Case(
        route=f"POST {ALL}/action {action}",
        body={action: value},
        path=f"{AT}/action",
        before=(on, *before),
        **shown,
        **more,
    )
