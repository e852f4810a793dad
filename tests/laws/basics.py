"""What most scenarios begin with, and ask for, through the public API alone."""

from __future__ import annotations

from functools import partial
from typing import Any

from mooring.compute.power.sagas.power import REBOOT_SERVER
from tests.laws.sites import COMPUTE, VOLUME, Site

_BY_ADMIN: dict[str, Any] = {"user": "admin", "version": "2.100"}
CONNECTOR = {"host": "h1", "ip": "127.0.0.1", "platform": "x86_64", "os_type": "linux"}


def disk(source: str, uuid: str = "", *, boot_index: int = -1, **more: Any) -> dict[str, Any]:
    """Return one entry of block_device_mapping_v2; `uuid` may be a name in braces."""
    found = {"source_type": source, "destination_type": "volume", "boot_index": boot_index, **more}
    return found | ({"uuid": uuid} if uuid else {})


# -- what stands ready -------------------------------------------------------------------------


async def nothing(site: Site) -> None:
    del site


async def a_volume(site: Site, name: str = "volume", **fields: Any) -> None:
    body = {"volume": {"size": 1, "name": name, **fields}}
    site.names[name] = (await site.get("POST", f"{VOLUME}/volumes", body))["volume"]["id"]


async def a_bootable_volume(site: Site) -> None:
    await a_volume(site, imageRef=site.names["image"])


async def a_server(site: Site) -> None:
    site.names["server"] = (await site.get(*new_server(site)))["server"]["id"]


async def a_stopped_server(site: Site) -> None:
    await a_server_with_volume(site)
    await site.get("POST", f"{COMPUTE}/servers/{{server}}/action", {"os-stop": None})


async def a_server_and_volume(site: Site) -> None:
    await a_server(site)
    await a_volume(site)


async def a_server_with_volume(site: Site) -> None:
    await a_server_and_volume(site)
    await attach(site)
    await site.cloud.settle()


async def a_server_with_two_volumes(site: Site) -> None:
    await a_server_with_volume(site)
    await a_volume(site, "temporary")
    wanted = {"volumeId": site.names["temporary"], "delete_on_termination": True}
    body = {"volumeAttachment": wanted}
    path = f"{COMPUTE}/servers/{{server}}/os-volume_attachments"
    await site.get("POST", path, body, version="2.79")


async def a_reservation(site: Site) -> None:
    await a_volume(site)
    body = {"attachment": {"volume_uuid": site.names["volume"]}}
    made = await site.get("POST", f"{VOLUME}/attachments", body, version="3.44")
    site.names["attachment"] = made["attachment"]["id"]


async def a_connection(site: Site) -> None:
    await a_reservation(site)
    await connect(site)
    path = f"{VOLUME}/attachments/{{attachment}}/action"
    await site.get("POST", path, {"os-complete": None}, version="3.44")


async def a_legacy_export(site: Site) -> None:
    await a_volume(site)
    await initialize(site)
    await site.cloud.settle()


async def a_group(site: Site, policy: str = "anti-affinity") -> None:
    body = {"server_group": {"name": "group", "policies": [policy]}}
    made = await site.get("POST", f"{COMPUTE}/os-server-groups", body, version="2.15")
    site.names["group"] = made["server_group"]["id"]


async def a_member_elsewhere(site: Site) -> None:
    """A bootable volume, and a group whose next server goes to the first host rather."""
    await a_bootable_volume(site)
    await a_group(site, "soft-anti-affinity")
    listed = await site.get("GET", f"{COMPUTE}/os-services", **_BY_ADMIN)
    first = [one for one in listed["services"] if one["host"] in {"h1", "h2"}]
    paths = [f"{COMPUTE}/os-services/{one['id']}" for one in first if one["status"] == "enabled"]
    for path in paths:
        await site.get("PUT", path, {"status": "disabled"}, **_BY_ADMIN)
    await create_member(site)
    await site.cloud.settle()
    for path in paths:
        await site.get("PUT", path, {"status": "enabled"}, **_BY_ADMIN)


# -- what is asked for -------------------------------------------------------------------------


def new_server(site: Site, *disks: dict[str, Any]) -> tuple[str, str, Any]:
    """Return the request that makes a server, from the image unless there are disks."""
    server: dict[str, Any] = {"name": "new", "flavorRef": site.names["flavor"]}
    if disks:
        named = [
            {key: v.format(**site.names) if isinstance(v, str) else v for key, v in one.items()}
            for one in disks
        ]
        server["block_device_mapping_v2"] = named
    else:
        server["imageRef"] = site.names["image"]
    return "POST", f"{COMPUTE}/servers", {"server": server}


async def create_server(site: Site, *disks: dict[str, Any]) -> Any:
    return await site.ask(*new_server(site, *disks))


async def create_member(site: Site, *disks: dict[str, Any]) -> Any:
    method, path, body = new_server(site, *disks)
    hints = {"os:scheduler_hints": {"group": site.names["group"]}}
    return await site.ask(method, path, {**body, **hints})


async def create_elsewhere(site: Site) -> Any:
    """Create a server with volumes that the first host, which its group prefers, does not start."""
    site.refuse_at("h2" if "asker" in site.names else "h1", "PUT", "/servers/*")
    disks = disk("volume", "{volume}", boot_index=0), disk("blank", volume_size=1)
    return await (create_member if "group" in site.names else create_server)(site, *disks)


async def delete_server(site: Site) -> Any:
    return await site.ask("DELETE", f"{COMPUTE}/servers/{{server}}")


async def act_on_server(site: Site, action: str, value: Any = None, user: str = "demo") -> Any:
    path = f"{COMPUTE}/servers/{{server}}/action"
    return await site.ask("POST", path, {action: value}, user=user)


async def attach(site: Site, name: str = "volume") -> Any:
    body = {"volumeAttachment": {"volumeId": site.names[name]}}
    return await site.ask("POST", f"{COMPUTE}/servers/{{server}}/os-volume_attachments", body)


async def detach(site: Site, name: str = "volume") -> Any:
    path = f"{COMPUTE}/servers/{{server}}/os-volume_attachments/{{{name}}}"
    return await site.ask("DELETE", path)


async def detach_badly(site: Site) -> Any:
    """Detach while the volume service will not delete the attachment at once."""
    site.refuse_once("DELETE", "/attachments/")
    return await detach(site)


async def insist_on_reboot(site: Site) -> Any:
    """Reboot hard while a soft reboot gets no answer from its host; later it does."""
    site.silence("PUT", "/power", b'"soft"')
    await act_on_server(site, "reboot", {"type": "SOFT"})
    await site.until_waiting(REBOOT_SERVER.name)
    answer = await act_on_server(site, "reboot", {"type": "HARD"})
    site.silence("", "", b"")
    return answer


async def reset_deleting(site: Site) -> Any:
    """Reset the state of a server that is being deleted; until then its host is silent."""
    site.silence("DELETE", site.names["server"], b"")
    await delete_server(site)
    answer = await act_on_server(site, "os-resetState", {"state": "active"}, "admin")
    site.silence("", "", b"")
    return answer


async def create_volume(site: Site, **fields: Any) -> Any:
    named = {key: value.format(**site.names) for key, value in fields.items()}
    body = {"volume": {"size": 1, "name": "new", **named}}
    return await site.ask("POST", f"{VOLUME}/volumes", body)


async def create_volume_for_server(site: Site) -> Any:
    """Make a volume as an operation of compute does, which waits to be told."""
    body, asker = {"volume": {"size": 1}}, site.names.get("asker", "asker")
    named = {"Mooring-Operation": f"{asker}.make_volume;1;1"}
    return await site.cloud.do("POST", f"{VOLUME}/volumes", body, user="compute", headers=named)


async def delete_volume(site: Site, name: str = "volume") -> Any:
    return await site.ask("DELETE", f"{VOLUME}/volumes/{{{name}}}")


async def act_on_volume(
    site: Site, action: str, value: Any, user: str = "demo", *, name: str = "volume"
) -> Any:
    path = f"{VOLUME}/volumes/{{{name}}}/action"
    return await site.ask("POST", path, {action: value}, user=user)


async def initialize(site: Site) -> Any:
    value = {"connector": CONNECTOR}
    return await act_on_volume(site, "os-initialize_connection", value, "compute")


async def connect(site: Site) -> Any:
    body = {"attachment": {"connector": CONNECTOR}}
    path = f"{VOLUME}/attachments/{{attachment}}"
    return await site.ask("PUT", path, body, version="3.44")


async def reserve_connected(site: Site) -> Any:
    body = {"attachment": {"volume_uuid": site.names["volume"], "connector": CONNECTOR}}
    return await site.ask("POST", f"{VOLUME}/attachments", body, version="3.44")


async def delete_attachment(site: Site) -> Any:
    return await site.ask("DELETE", f"{VOLUME}/attachments/{{attachment}}", version="3.44")


async def delete_attachments(site: Site) -> Any:
    """Delete, as its user, what attachment a server's volume has: the guard refuses that."""
    path = f"{VOLUME}/attachments?volume_id={{volume}}"
    answer = await site.ask("GET", path, version="3.44")
    listed: list[dict[str, Any]] = answer.body["attachments"] if answer else []
    for attachment in listed:
        path = f"{VOLUME}/attachments/{attachment['id']}"
        answer = await site.ask("DELETE", path, version="3.44")
    return answer


stop = partial(act_on_server, action="os-stop")
start = partial(act_on_server, action="os-start")
reboot = partial(act_on_server, action="reboot", value={"type": "SOFT"})
reboot_hard = partial(act_on_server, action="reboot", value={"type": "HARD"})
reset_state = partial(act_on_server, action="os-resetState", value={"state": "error"}, user="admin")
force_delete = partial(act_on_volume, action="os-force_delete", value={}, user="admin")
reset_status = partial(
    act_on_volume,
    action="os-reset_status",
    value={"status": "available", "attach_status": "detached"},
    user="admin",
)
terminate = partial(
    act_on_volume,
    action="os-terminate_connection",
    value={"connector": CONNECTOR},
    user="compute",
)
BOOT_IMAGE = disk("image", "{image}", boot_index=0, volume_size=1, delete_on_termination=True)
BLANK = disk("blank", volume_size=1)


async def boot_from_volume(site: Site, name: str = "volume") -> Any:
    return await create_server(site, disk("volume", f"{{{name}}}", boot_index=0))


async def boot_from_new_volumes(site: Site) -> Any:
    return await create_server(site, BOOT_IMAGE, BLANK)


async def boot_on_scsi(site: Site) -> Any:
    return await create_server(site, *({**one, "disk_bus": "scsi"} for one in (BOOT_IMAGE, BLANK)))
