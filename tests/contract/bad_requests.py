"""Requests that must be refused, each with the status and the words of its refusal.

In paths and bodies `<name>` stands for an id of what is `Standing`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from mooring.limits import WEB_BODY_BYTES
from tests.contract.clients import COMPUTE, IMAGE, VOLUME

SERVERS, VOLUMES = f"{COMPUTE}/servers", f"{VOLUME}/volumes"
IDENTITY, PLACEMENT = "/identity/v3", "/placement"
NOBODY = "22222222-2222-4222-8222-222222222222"
BLANK = " " * (WEB_BODY_BYTES + 1)
XML = {"Content-Type": "application/xml"}
TOKENS = f"{IDENTITY}/auth/tokens"
FLAVOR = {"name": "x", "ram": 64, "vcpus": 1, "disk": 1}


class Standing(Struct, frozen=True):
    """Ids of what stands there, and must still stand there, unchanged, after a bad request."""

    image: str
    server: str
    """Has `attached`."""
    rooted: str
    """Boots from `root`."""
    attached: str
    root: str
    free: str
    attachment: str
    """Of `attached`, in the volume service."""
    their_image: str
    their_server: str
    their_volume: str
    their_project: str


class Bad(Struct, frozen=True):
    """One request, and how it is refused. `user` is member, or admin, who may do everything."""

    method: str
    path: str
    body: Any
    status: int
    text: str
    version: str = ""
    user: str = "member"
    headers: dict[str, str] = {}

    @property
    def name(self) -> str:
        """What a test of it is called."""
        body = self.body.decode("utf-8", "replace") if isinstance(self.body, bytes) else self.body
        shown = json.dumps(body)[:60] if body is not None else ""
        return " ".join(filter(None, (self.method, self.path, self.version, shown)))

    def filled(self, standing: Standing) -> tuple[str, Any]:
        """Return path and body with the ids of what stands there."""
        path, body = self.path, self.body
        text = json.dumps(body) if body is not None and not isinstance(body, bytes) else ""
        for field in standing.__struct_fields__:
            path = path.replace(f"<{field}>", getattr(standing, field))
            text = text.replace(f"<{field}>", getattr(standing, field))
        return path, json.loads(text) if text else body


def _server(**wanted: Any) -> dict[str, Any]:
    server = {"name": "x", "imageRef": "<image>", "flavorRef": "42", "networks": "none"}
    return {"server": {**server, **wanted}}


def _server_of(*devices: dict[str, Any]) -> dict[str, Any]:
    return _server(imageRef="", block_device_mapping_v2=devices)


def _attach(volume: Any, **more: Any) -> dict[str, Any]:
    return {"volumeAttachment": {"volumeId": volume, **more}}


def _volume(**wanted: Any) -> dict[str, Any]:
    return {"volume": {"size": 1, **wanted}}


def _posts(
    path: str, version: str, *cases: tuple[Any, int, str], user: str = "member"
) -> list[Bad]:
    return [Bad("POST", path, body, status, text, version, user) for body, status, text in cases]


_DISK = {"source_type": "volume", "destination_type": "volume", "boot_index": 0}
_ROOM = f"{SERVERS}/<server>"
_ATTACH = f"{SERVERS}/<server>/os-volume_attachments"

SERVER_BODIES = _posts(
    SERVERS,
    "2.79",
    (b'{"server": ', 400, "not valid JSON"),
    (b"\xff\xfe", 400, "JSON"),
    ([], 400, "object"),
    ({}, 400, "server"),
    (_server(name=7), 400, "name"),
    (_server(name=""), 400, "name"),
    (_server(name="x" * 256), 400, "name"),
    (_server(colour="blue"), 400, "colour"),
    (_server(flavorRef="nothing"), 400, "Flavor nothing could not be found"),
    (_server(flavorRef={}), 400, "flavorRef"),
    (_server(imageRef=NOBODY), 400, NOBODY),
    (_server(imageRef="<their_image>"), 400, "<their_image>"),
    (_server(imageRef="no uuid"), 400, "imageRef"),
    (_server(imageRef=""), 400, "image"),
    (_server(networks=[{"uuid": NOBODY}]), 400, "network"),
    (_server(networks="many"), 400, "networks"),
    (_server(min_count=0), 400, "min_count"),
    (_server(min_count=3, max_count=2), 400, "min_count"),
    (_server(user_data="%%%"), 400, "user_data"),
    (_server(user_data="A" * 65536), 400, "user_data"),
    (_server(config_drive="maybe"), 400, "config_drive"),
    (_server(config_drive=1), 400, "config_drive"),
    (_server(metadata={"x": "y" * 256}), 400, "metadata"),
    (_server(key_name="nobody's"), 400, "nobody's"),
    (_server_of({**_DISK, "uuid": NOBODY}), 400, NOBODY),
    (_server_of({**_DISK, "uuid": "<attached>"}), 400, "<attached>"),
    (_server_of({**_DISK, "uuid": "<their_volume>"}), 400, "<their_volume>"),
    (_server_of({**_DISK, "uuid": "<free>"}), 400, "bootable"),
    (_server_of({**_DISK, "uuid": "<free>", "source_type": "wood"}), 400, "source_type"),
    ({"server": {"name": "x", "imageRef": "<image>", "flavorRef": "42"}}, 400, "networks"),
    (BLANK.encode(), 413, "large"),
)
SERVER_PATHS = [
    Bad("GET", f"{SERVERS}/{NOBODY}", None, 404, f"{NOBODY} could not be found"),
    Bad("GET", f"{SERVERS}/no-uuid", None, 404, "no-uuid could not be found"),
    Bad("DELETE", f"{SERVERS}/{NOBODY}", None, 404, f"{NOBODY} could not be found"),
    Bad("GET", f"{SERVERS}/<their_server>", None, 404, "<their_server> could not be found"),
    Bad("DELETE", f"{SERVERS}/<their_server>", None, 404, "<their_server> could not be found"),
    Bad("PUT", _ROOM, {"server": {"name": 7}}, 400, "name"),
    Bad("PUT", _ROOM, {"server": {"host": "h"}}, 400, "host"),
    Bad("POST", f"{SERVERS}/<their_server>/action", {"os-stop": None}, 404, "<their_server>"),
    Bad("GET", f"{SERVERS}/<their_server>/os-volume_attachments", None, 404, "<their_server>"),
    Bad("GET", f"{_ROOM}/os-instance-actions/req-{NOBODY}", None, 404, NOBODY),
    Bad("GET", f"{SERVERS}?limit=-1", None, 400, "limit"),
    Bad("GET", f"{SERVERS}?limit=many", None, 400, "limit"),
    Bad("GET", f"{SERVERS}?marker={NOBODY}", None, 400, "arker"),
    Bad("GET", f"{SERVERS}?sort_key=weather", None, 400, "weather"),
    Bad("GET", f"{COMPUTE}/<their_project>/servers", None, 400, "project_id"),
    Bad("GET", f"{COMPUTE}/nothing", None, 404, "could not be found"),
    Bad("PATCH", SERVERS, {}, 405, "PATCH"),
    Bad("POST", SERVERS, {}, 415, "application/xml", headers=XML),
    Bad("GET", SERVERS, None, 406, "2.999", "2.999"),
    Bad("GET", SERVERS, None, 406, "1.1", "1.1"),
    Bad("GET", SERVERS, None, 400, "2.x", "2.x"),
    Bad("GET", f"{COMPUTE}/flavors/nothing", None, 404, "nothing could not be found"),
    Bad("POST", f"{COMPUTE}/flavors", {"flavor": FLAVOR}, 403, "olicy"),
    Bad("DELETE", f"{COMPUTE}/flavors/42", None, 403, "olicy"),
]
ACTIONS = _posts(
    f"{_ROOM}/action",
    "2.79",
    ({"dance": None}, 400, "dance"),
    ({"os-start": None, "os-stop": None}, 400, "one key"),
    ({}, 400, "one key"),
    ({"reboot": {"type": "MEDIUM"}}, 400, "type"),
    ({"reboot": {}}, 400, "type"),
    ({"os-start": None}, 409, "<server>"),
    ({"os-getConsoleOutput": {"length": "long"}}, 400, "length"),
    ({"os-resetState": {"state": "error"}}, 403, "olicy"),
    (b"nothing", 400, "JSON"),
)
ATTACHMENTS = [
    *_posts(
        _ATTACH,
        "2.79",
        (_attach(NOBODY), 404, f"{NOBODY} could not be found"),
        (_attach("no uuid"), 400, "volumeId"),
        (_attach("<their_volume>"), 404, "<their_volume> could not be found"),
        (_attach("<attached>"), 400, "is attached to server <server>"),
        (_attach("<root>"), 400, "is attached to another server"),
        (_attach("<free>", colour="blue"), 400, "colour"),
        (_attach("<free>", device="round"), 400, "device"),
        (_attach("<free>", tag="a,b"), 400, "tag"),
        ({"volumeAttachment": {}}, 400, "volumeId"),
    ),
    Bad("POST", f"{SERVERS}/{NOBODY}/os-volume_attachments", _attach("<free>"), 404, NOBODY),
    Bad("DELETE", f"{_ATTACH}/<free>", None, 404, "<free>"),
    Bad("DELETE", f"{_ATTACH}/{NOBODY}", None, 404, NOBODY),
    Bad("DELETE", f"{SERVERS}/<rooted>/os-volume_attachments/<root>", None, 400, "root"),
]
FLAVORS = _posts(
    f"{COMPUTE}/flavors",
    "2.79",
    ({"flavor": {**FLAVOR, "ram": -1}}, 400, "ram"),
    ({"flavor": {**FLAVOR, "vcpus": "many"}}, 400, "vcpus"),
    ({"flavor": {**FLAVOR, "colour": "blue"}}, 400, "colour"),
    ({"flavor": {**FLAVOR, "id": "42"}}, 409, "42"),
    user="admin",
)
VOLUME_BODIES = _posts(
    VOLUMES,
    "3.60",
    (b'{"volume": ', 400, "not valid JSON"),
    ({}, 400, "volume"),
    (_volume(size=0), 400, "size"),
    (_volume(size=-1), 400, "size"),
    (_volume(size="big"), 400, "size"),
    (_volume(size=None), 400, "size"),
    (_volume(name=7), 400, "name"),
    (_volume(colour="blue"), 400, "colour"),
    (_volume(volume_type="wood"), 404, "wood"),
    (_volume(imageRef=NOBODY), 400, "Invalid image identifier or unable to access"),
    (_volume(imageRef="<their_image>"), 400, "Invalid image identifier or unable to access"),
    (_volume(metadata={"x": "y" * 256}), 400, "metadata"),
    (_volume(availability_zone="moon"), 400, "moon"),
    (BLANK.encode(), 413, "large"),
)
VOLUME_PATHS = [
    Bad("GET", f"{VOLUMES}/{NOBODY}", None, 404, f"{NOBODY} could not be found"),
    Bad("GET", f"{VOLUMES}/no-uuid", None, 404, "no-uuid could not be found"),
    Bad("GET", f"{VOLUMES}/<their_volume>", None, 404, "<their_volume> could not be found"),
    Bad("DELETE", f"{VOLUMES}/<their_volume>", None, 404, "<their_volume> could not be found"),
    Bad("DELETE", f"{VOLUMES}/<attached>", None, 400, "must be available"),
    Bad("DELETE", f"{VOLUMES}/<root>", None, 400, "must be available"),
    Bad("DELETE", f"{VOLUME}/attachments/<attachment>", None, 409, "<server>", "3.60"),
    Bad("GET", f"{VOLUME}/attachments/{NOBODY}", None, 404, NOBODY, "3.60"),
    Bad("POST", f"{VOLUMES}/<free>/action", {"dance": {}}, 400, "dance"),
    Bad("POST", f"{VOLUMES}/<free>/action", {"os-reset_status": {"status": "error"}}, 403, "olicy"),
    Bad("PUT", f"{VOLUMES}/<free>", {"volume": {"name": 7}}, 400, "name"),
    Bad("GET", f"{VOLUMES}?limit=-1", None, 400, "limit"),
    Bad("GET", f"{VOLUMES}?marker={NOBODY}", None, 404, NOBODY),
    Bad("GET", f"{VOLUMES}?sort=weather", None, 400, "weather"),
    Bad("GET", VOLUMES, None, 406, "3.999", "3.999"),
    Bad("GET", VOLUMES, None, 400, "3.x", "3.x"),
    Bad("PATCH", VOLUMES, {}, 405, "PATCH"),
    Bad("POST", f"{VOLUME}/snapshots", {"snapshot": {"volume_id": NOBODY}}, 404, NOBODY),
    Bad("POST", f"{VOLUME}/snapshots", {"snapshot": {"volume_id": "<attached>"}}, 400, "in-use"),
    Bad("DELETE", f"{VOLUME}/snapshots/{NOBODY}", None, 404, NOBODY),
    Bad("GET", f"{VOLUME}/snapshots/{NOBODY}", None, 404, NOBODY),
]
IMAGES = [
    Bad("GET", f"{IMAGE}/images/{NOBODY}", None, 404, NOBODY),
    Bad("GET", f"{IMAGE}/images/no-uuid", None, 404, "no-uuid"),
    Bad("GET", f"{IMAGE}/images/<their_image>", None, 404, "<their_image>"),
    Bad("DELETE", f"{IMAGE}/images/<their_image>", None, 404, "<their_image>"),
    Bad("GET", f"{IMAGE}/images/<their_image>/file", None, 404, "<their_image>"),
    Bad("POST", f"{IMAGE}/images", b'{"name": ', 400, "JSON"),
    Bad("POST", f"{IMAGE}/images", {"disk_format": "wood"}, 400, "disk_format"),
    Bad("POST", f"{IMAGE}/images", {"min_ram": "much"}, 400, "min_ram"),
    Bad("POST", f"{IMAGE}/images", {"status": "active"}, 403, "status"),
    Bad("POST", f"{IMAGE}/images", {"id": "<image>"}, 409, "<image>"),
    Bad("GET", f"{IMAGE}/images?limit=-1", None, 400, "limit"),
    Bad("GET", f"{IMAGE}/images?marker={NOBODY}", None, 400, NOBODY),
    Bad("PUT", f"{IMAGE}/images/<image>/file", b"x", 415, "application/json"),
]
ELSEWHERE = [
    Bad("POST", TOKENS, {"auth": {"identity": {"methods": ["password"]}}}, 400, "password"),
    Bad("POST", TOKENS, b"{", 400, "JSON"),
    Bad("GET", f"{IDENTITY}/users/nobody", None, 404, "nobody", user="admin"),
    Bad("GET", f"{IDENTITY}/users", None, 403, "identity:list_users"),
    Bad("GET", f"{PLACEMENT}/resource_providers", None, 403, "olicy"),
    Bad("GET", f"{PLACEMENT}/resource_providers/{NOBODY}", None, 404, NOBODY, user="admin"),
    Bad("GET", f"{PLACEMENT}/resource_providers", None, 406, "1.999", "1.999", "admin"),
]
EVERY: Sequence[Bad] = (
    *SERVER_BODIES,
    *SERVER_PATHS,
    *ACTIONS,
    *ATTACHMENTS,
    *FLAVORS,
    *VOLUME_BODIES,
    *VOLUME_PATHS,
    *IMAGES,
    *ELSEWHERE,
)
