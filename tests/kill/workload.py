"""What users do while a process dies: a prepared project, and ten operations at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tests.kill.backup_workload import backup_operations
from tests.kill.elsewhere_workload import elsewhere_operations
from tests.kill.extend_workload import extend_operations
from tests.kill.fence_workload import fence_operations
from tests.kill.guest_share_workload import act, attach, guest_share_operations, make_share
from tests.kill.harness import Answer, KilledCloud
from tests.kill.image_workload import image_operations
from tests.kill.move_workload import move_operations
from tests.kill.rebuild_workload import rebuild_operations
from tests.kill.rescue_workload import rescue_operations
from tests.kill.share_workload import share_operations
from tests.kill.shared_move_workload import shared_move_operations
from tests.kill.shelve_workload import shelve_operations
from tests.kill.snapshot_workload import snapshot_operations
from tests.kill.standstill_workload import standstill_operations
from tests.kill.swap_workload import swap_operations

COMPUTE = "/compute/v2.1"
VOLUME = "/volume/v3"
CONNECTOR = {"host": "h1", "ip": "127.0.0.1", "platform": "x86_64", "os_type": "linux"}
IMAGE_BYTES = 1024 * 1024
Act = Callable[[], Answer]


class Project(Struct):
    """Ids of what stands ready."""

    image: str
    fresh_image: str
    """One that no host has yet."""
    bare: list[str]
    """Servers without volumes."""
    laden: list[tuple[str, str]]
    """Servers, each with its volume attached."""
    free: list[str]
    """Volumes that nobody uses."""
    legacy: str
    """A volume that is exported by the legacy call."""
    spare: str
    """A volume that a new server is to have."""
    hosted: str
    """A volume that is exported to a host for no server."""
    stopped: str
    """A server that is switched off."""
    booted: str
    """A server that boots from a volume."""
    sharing: list[str]
    """A server that is off and one that is on, each with the share."""
    folders: list[str]
    """A share that both have, and one that nobody has."""


def prepare(cloud: KilledCloud) -> Project:
    """Make what the ten operations need, and wait until it stands."""
    _lift_quotas(cloud)
    image, fresh_image = _make_image(cloud), _make_image(cloud)
    servers = [_make_server(cloud, image, f"s{number}") for number in range(8)]
    root = {"block_device_mapping_v2": _volumes_from(image)[:1], "name": "booted"}
    booted = _create_server(cloud, root)().body["server"]["id"]
    volumes = [_make_volume(cloud, f"v{number}") for number in range(10)]
    cloud.settle()
    for server, volume in zip(servers[:3], volumes[:3], strict=True):
        _attach(cloud, server, volume)()
    _act_on_volume(cloud, volumes[7], {"os-initialize_connection": {"connector": CONNECTOR}})()
    attachment = {"volume_uuid": volumes[9], "connector": CONNECTOR}
    cloud.ask("POST", f"{VOLUME}/attachments", {"attachment": attachment}, version="3.44")
    _act_on_server(cloud, servers[7], {"os-stop": None})()
    cloud.settle()
    sharing = [_make_server(cloud, image, name) for name in ("off", "on")]
    folders = [make_share(cloud), make_share(cloud)]
    for server in sharing:
        act(cloud, server, "os-stop")
    cloud.settle()
    for server in sharing:
        attach(cloud, server, folders[0])
    cloud.settle()
    act(cloud, sharing[1], "os-start")
    cloud.settle()
    laden = list(zip(servers[:3], volumes[:3], strict=True))
    return Project(
        image,
        fresh_image,
        servers[3:7],
        laden,
        volumes[3:7],
        *volumes[7:],
        stopped=servers[7],
        booted=booted,
        sharing=sharing,
        folders=folders,
    )


def ten_operations(cloud: KilledCloud, project: Project) -> list[Act]:
    """Return ten things that users do at the same time."""
    (server, volume), (doomed, _), (rebooted, _) = project.laden
    return [
        _attach(cloud, project.bare[0], project.free[0]),
        _attach(cloud, project.bare[1], project.free[1]),
        _detach(cloud, server, volume),
        _delete(cloud, f"{COMPUTE}/servers/{doomed}"),
        _act_on_server(cloud, rebooted, {"reboot": {"type": "HARD"}}),
        _act_on_server(cloud, project.bare[2], {"os-stop": None}),
        _create_server(cloud, _image_and_volume(project)),
        _create_server(cloud, {"block_device_mapping_v2": _volumes_from(project.image)}),
        _create_volume(cloud, project.fresh_image),
        _delete(cloud, f"{VOLUME}/volumes/{project.free[2]}"),
    ]


def rarer_operations(cloud: KilledCloud, project: Project) -> dict[str, list[Act]]:
    """Return what to do besides for a saga, or a step, that the ten operations do not come to."""
    server, volume = project.bare[3], project.free[3]
    reset = {"os-reset_status": {"attach_status": "detached"}}
    legacy = {"os-terminate_connection": {"connector": CONNECTOR}}
    first = {"os-initialize_connection": {"connector": CONNECTOR}}
    growing = extend_operations(cloud, volume, project.laden[2][1], project.legacy, server)
    making = _image_and_volume(replace(project, spare=volume))
    rebuilding = rebuild_operations(cloud, server, project.booted, project.fresh_image)
    return {
        **growing,
        **snapshot_operations(cloud, volume, server),
        **rebuilding,
        **share_operations(cloud),
        **_with_shares(cloud, project),
        **move_operations(cloud, project.booted, server, volume),
        **elsewhere_operations(cloud, _create_server(cloud, making)),
        **shared_move_operations(cloud, project.stopped),
        **fence_operations(cloud),
        **standstill_operations(cloud, server),
        **rescue_operations(cloud, server, project.sharing[0]),
        **shelve_operations(cloud, project.booted, server, volume),
        **image_operations(cloud, server, project.booted),
        **swap_operations(cloud, server),
        **backup_operations(cloud, volume, server),
        "compute.start_server": [_act_on_server(cloud, project.stopped, {"os-start": None})],
        "compute.insist_on_reboot": [lambda: _insist(cloud, server)],
        "compute.reset_state": [_reset(cloud, server)],
        "volume.reset_status": [
            _act_on_volume(cloud, project.hosted, reset),
            *growing["volume.reset_status"],
        ],
        "volume.delete_volume": [_delete(cloud, f"{VOLUME}/volumes/{project.legacy}")],
        "volume.force_delete_volume": [
            _act_on_volume(cloud, volume, {"os-force_delete": {}}),
            _act_on_volume(cloud, project.legacy, {"os-force_delete": {}}),
        ],
        "volume.reimage_volume": [_reimage(cloud, server, volume, project.fresh_image)],
        "volume.connect_legacy": [_act_on_volume(cloud, volume, first)],
        "volume.end_legacy": [_act_on_volume(cloud, project.legacy, legacy)],
    }


def _with_shares(cloud: KilledCloud, project: Project) -> dict[str, list[Act]]:
    off, on = project.sharing
    folder, spare = project.folders
    return guest_share_operations(cloud, (off, folder), on, spare, project.free[3])


def _volumes_from(image: str) -> list[dict[str, Any]]:
    root = {"source_type": "image", "destination_type": "volume", "uuid": image}
    blank = {"source_type": "blank", "destination_type": "volume", "boot_index": -1}
    return [{**root, "volume_size": 1, "boot_index": 0}, {**blank, "volume_size": 1}]


def _image_and_volume(project: Project) -> dict[str, Any]:
    root = {"source_type": "image", "destination_type": "local", "uuid": project.image}
    data = {"source_type": "volume", "destination_type": "volume", "uuid": project.spare}
    devices = [{**root, "boot_index": 0}, {**data, "boot_index": -1}]
    return {"imageRef": project.image, "block_device_mapping_v2": devices}


def _lift_quotas(cloud: KilledCloud) -> None:
    project = cloud.ask("GET", "/identity/v3/auth/projects").body["projects"][0]["id"]
    for root, names in ((COMPUTE, ("instances", "cores", "ram")), (VOLUME, ("volumes",))):
        body = {"quota_set": dict.fromkeys(names, -1)}
        answer = cloud.ask("PUT", f"{root}/os-quota-sets/{project}", body, user="admin")
        assert answer.status == 200, answer.body


def _make_image(cloud: KilledCloud) -> str:
    body = {"name": "guest", "disk_format": "raw", "container_format": "bare"}
    made = cloud.ask("POST", "/image/v2/images", body).body["id"]
    cloud.upload(f"/image/v2/images/{made}/file", b"\0" * IMAGE_BYTES)
    return made


def _make_server(cloud: KilledCloud, image: str, name: str) -> str:
    answer = _create_server(cloud, {"imageRef": image, "name": name})()
    return answer.body["server"]["id"]


def _make_volume(cloud: KilledCloud, name: str) -> str:
    body = {"volume": {"size": 1, "name": name}}
    return cloud.ask("POST", f"{VOLUME}/volumes", body, version="3.60").body["volume"]["id"]


def _create_server(cloud: KilledCloud, wanted: dict[str, Any]) -> Act:
    told = {"config_drive": True, "user_data": "IyEvYmluL3NoCg=="}
    server = {"name": "new", "flavorRef": "42", "networks": "none", **told, **wanted}
    return lambda: cloud.ask("POST", f"{COMPUTE}/servers", {"server": server}, version="2.79")


def _create_volume(cloud: KilledCloud, image: str) -> Act:
    body = {"volume": {"size": 1, "imageRef": image}}
    return lambda: cloud.ask("POST", f"{VOLUME}/volumes", body, version="3.60")


def _attach(cloud: KilledCloud, server: str, volume: str) -> Act:
    path = f"{COMPUTE}/servers/{server}/os-volume_attachments"
    return lambda: cloud.ask("POST", path, {"volumeAttachment": {"volumeId": volume}})


def _detach(cloud: KilledCloud, server: str, volume: str) -> Act:
    return _delete(cloud, f"{COMPUTE}/servers/{server}/os-volume_attachments/{volume}")


def _delete(cloud: KilledCloud, path: str) -> Act:
    return lambda: cloud.ask("DELETE", path)


def _act_on_server(cloud: KilledCloud, server: str, body: dict[str, Any]) -> Act:
    return lambda: cloud.ask("POST", f"{COMPUTE}/servers/{server}/action", body, user="admin")


def _act_on_volume(cloud: KilledCloud, volume: str, body: dict[str, Any]) -> Act:
    return lambda: cloud.ask("POST", f"{VOLUME}/volumes/{volume}/action", body, user="admin")


def load_project(text: bytes) -> Project:
    """Read what `prepare` made, as it was kept beside the template."""
    return msgspec.json.decode(text, type=Project)


def _reset(cloud: KilledCloud, server: str) -> Act:
    return _act_on_server(cloud, server, {"os-resetState": {"state": "error"}})


def _insist(cloud: KilledCloud, server: str) -> Answer:
    """Reboot twice, the second time while the host does not answer the first."""
    reboot = _act_on_server(cloud, server, {"reboot": {"type": "HARD"}})
    with cloud.agent_frozen():
        reboot()
        return reboot()


def _reimage(cloud: KilledCloud, server: str, volume: str, image: str) -> Act:
    """Replace the content of a volume that is held for a server, as a rebuild does."""
    held = {"attachment": {"volume_uuid": volume, "instance_uuid": server}}
    value = {"os-reimage": {"image_id": image, "reimage_reserved": True}}

    def act() -> Answer:
        cloud.ask("POST", f"{VOLUME}/attachments", held, version="3.44")
        path = f"{VOLUME}/volumes/{volume}/action"
        return cloud.ask("POST", path, value, version="3.68")

    return act
