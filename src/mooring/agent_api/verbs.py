"""Every verb of an agent, one line each: clients ask by this table, agents answer by it.

What a host still owes while it is dead (`fence.debts`) is the path of one of the verbs that undo.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

from msgspec import Struct

from mooring.agent_api.captures import Capture, CaptureRequest
from mooring.agent_api.certificates import MoveCertificates, Renewed, Shown, ShownForMoves
from mooring.agent_api.copies import CopyProgress, Offer
from mooring.agent_api.disks import (
    Connected,
    ConnectRequest,
    DiskSize,
    DiskSizeRequest,
    DiskSpec,
    GuestDisk,
    Unplugged,
)
from mooring.agent_api.guest_shares import Mounted, MountedShare, MountRequest
from mooring.agent_api.hosts import Events, Host, Inventory
from mooring.agent_api.images import Arrived, CachedImage
from mooring.agent_api.mirrors import Mirroring, SwitchRequest
from mooring.agent_api.moves import Arrival, Portrait, Progress
from mooring.agent_api.overlays import ActiveFile, MergeRequest, OverlayRequest
from mooring.agent_api.serial import SerialInput, SerialOutput, SerialSession, SerialTaken
from mooring.agent_api.servers import Console, Guest, PowerRequest, ServerSpec
from mooring.agent_api.shares import (
    AccessGranted,
    AccessRule,
    HostedShare,
    ShareExports,
    ShareSize,
    ShareSizeRequest,
    ShareSnapshotSpec,
    ShareSpec,
)
from mooring.agent_api.snapshots import SnapshotFile, SnapshotSpec
from mooring.agent_api.volumes import (
    AdoptRequest,
    ContentRequest,
    Copying,
    Export,
    ExportRequest,
    Extended,
    Holders,
    SizeRequest,
    VolumeFile,
    VolumeSpec,
)

A = TypeVar("A")
Method = Literal["GET", "PUT", "POST", "DELETE"]
_ID = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
_NAMES = re.compile(_ID)
_PLACE = re.compile(r"\{(\w+)\}")


class Verb(Struct, Generic[A], frozen=True):
    """One verb: its name, how it is asked, what it takes, what it answers.

    request    what the body is; None without one, or when it is a stream
    answer     what the answer's body is; NoneType for none
    undone_by  the DELETE on the same path that takes it back, or sees that it does not come late;
               "" where what was done stays
    shared     used under different locks at once (`fence.journal`)
    patient    never answered 202: its body comes as a stream, or whoever asks has no place at the
               host's door, by which a 202 is followed
    also       the path of what a DELETE ends besides, named by a word of its query; late calls for
               that are fenced off with it
    """

    name: str
    method: Method
    path: str
    request: Any
    answer: type[A]
    undone_by: str = ""
    shared: bool = False
    patient: bool = False
    also: str = ""

    def target(self, *ids: str, **query: str | float) -> str:
        """Return the path of one resource, its ids in their order; what is "" is left out."""
        left = iter(ids)
        path = _PLACE.sub(lambda _: quote(next(left), safe=""), self.path)
        words = {key: value for key, value in query.items() if value != ""}
        return f"{path}?{urlencode(words)}" if words else path

    def ended_also(self, ids: Mapping[str, str], query: Mapping[str, str]) -> str:
        """Return the path of what this one ends besides; "" when the query does not name it.

        A volume of the old calls is its own attachment, for all servers that have it: its
        connection ends with the last of them, whose calls know nothing of each other's locks.
        """
        words = [query.get(name, "") for name in _PLACE.findall(self.also)]
        if not words or not all(words) or any(word in ids.values() for word in words):
            return ""
        return _PLACE.sub(lambda place: quote(query[place[1]], safe=""), self.also)


_IMAGE = "/images/{image_id}"
_SERVER = "/servers/{server_id}"
_SERIAL = f"{_SERVER}/serial"
_CONNECTION = "/connections/{attachment_id}"
_DISK = f"{_SERVER}/disks/{{volume_id}}"
_GUEST_SHARE = f"{_SERVER}/shares/{{share_id}}"
_ARRIVAL, _DEPARTURE = f"{_SERVER}/arrival", f"{_SERVER}/departure"
_OFFER, _COPY, _KEPT = f"{_SERVER}/offer", f"{_SERVER}/copy", f"{_SERVER}/kept"
_CAPTURE = f"{_SERVER}/captures/{{image_id}}"
_OVERLAY = f"{_DISK}/overlays/{{snapshot_id}}"
_MERGE = f"{_DISK}/merges/{{snapshot_id}}"
_MIRROR = f"{_DISK}/mirror"
_VOLUME = "/volumes/{volume_id}"
_EXPORT = f"{_VOLUME}/exports/{{attachment_id}}"
_FENCE = f"{_VOLUME}/fences/{{attachment_id}}"
_VOLUME_CAPTURE = f"{_VOLUME}/captures/{{image_id}}"
_SNAPSHOT = f"{_VOLUME}/snapshots/{{snapshot_id}}"
_SHARE = "/shares/{share_id}"
_ACCESS = f"{_SHARE}/access/{{rule_id}}"
_SHARE_SNAPSHOT = f"{_SHARE}/snapshots/{{snapshot_id}}"

SHOW_HOST = Verb("show_host", "GET", "/host", None, Host)
SHOW_CONNECTOR = Verb("show_connector", "GET", "/connector", None, dict[str, Any])
SHOW_INVENTORY = Verb("show_inventory", "GET", "/inventory", None, Inventory)
SHOW_EVENTS = Verb("show_events", "GET", "/events", None, Events)

SHOW_CERTIFICATE = Verb("show_certificate", "GET", "/certificate", None, Shown)
PUT_CERTIFICATE = Verb("put_certificate", "PUT", "/certificate", Renewed, NoneType)
SHOW_MOVE_CERTIFICATES = Verb(
    "show_move_certificates", "GET", "/certificate/moves", None, ShownForMoves
)
PUT_MOVE_CERTIFICATES = Verb(
    "put_move_certificates", "PUT", "/certificate/moves", MoveCertificates, NoneType
)

SHOW_IMAGE = Verb("show_image", "GET", _IMAGE, None, CachedImage)
PUT_IMAGE = Verb(
    "put_image", "PUT", _IMAGE, None, CachedImage, "delete_image", shared=True, patient=True
)
SHOW_ARRIVED = Verb("show_arrived", "GET", f"{_IMAGE}/arrived", None, Arrived)
DELETE_IMAGE = Verb("delete_image", "DELETE", _IMAGE, None, NoneType, shared=True)

LIST_SERVERS = Verb("list_servers", "GET", "/servers", None, list[Guest])
SHOW_SERVER = Verb("show_server", "GET", _SERVER, None, Guest)
PUT_SERVER = Verb("put_server", "PUT", _SERVER, ServerSpec, Guest, "delete_server")
DELETE_SERVER = Verb("delete_server", "DELETE", _SERVER, None, NoneType)
CLAIM_SERVER = Verb("claim_server", "POST", _SERVER, None, NoneType)
SET_POWER = Verb("set_power", "PUT", f"{_SERVER}/power", PowerRequest, Guest)
READ_CONSOLE = Verb("read_console", "GET", f"{_SERVER}/console", None, Console)
CHECK_SERIAL = Verb("check_serial", "GET", _SERIAL, None, NoneType)
OPEN_SERIAL = Verb("open_serial", "POST", _SERIAL, None, SerialSession)
READ_SERIAL = Verb("read_serial", "GET", f"{_SERIAL}/{{session_id}}", None, SerialOutput)
WRITE_SERIAL = Verb(
    "write_serial",
    "PUT",
    f"{_SERIAL}/{{session_id}}",
    SerialInput,
    SerialTaken,
    "close_serial",
    patient=True,
)
CLOSE_SERIAL = Verb("close_serial", "DELETE", f"{_SERIAL}/{{session_id}}", None, NoneType)

SHOW_PORTRAIT = Verb("show_portrait", "GET", f"{_SERVER}/portrait", None, Portrait)
SHOW_ARRIVAL = Verb("show_arrival", "GET", _ARRIVAL, None, Arrival)
PUT_ARRIVAL = Verb("put_arrival", "PUT", _ARRIVAL, Portrait, NoneType, "delete_arrival")
DELETE_ARRIVAL = Verb("delete_arrival", "DELETE", _ARRIVAL, None, NoneType)
SHOW_DEPARTURE = Verb("show_departure", "GET", _DEPARTURE, None, Progress)
PUT_DEPARTURE = Verb("put_departure", "PUT", _DEPARTURE, Arrival, NoneType, "cancel_departure")
CANCEL_DEPARTURE = Verb("cancel_departure", "DELETE", _DEPARTURE, None, NoneType)
HASTEN_DEPARTURE = Verb("hasten_departure", "PUT", f"{_DEPARTURE}/haste", None, NoneType)

PUT_OFFER = Verb("put_offer", "PUT", _OFFER, None, Offer, "withdraw_offer")
WITHDRAW_OFFER = Verb("withdraw_offer", "DELETE", _OFFER, None, NoneType)
SHOW_COPY = Verb("show_copy", "GET", _COPY, None, CopyProgress)
PUT_COPY = Verb("put_copy", "PUT", _COPY, Offer, CopyProgress, "discard_copy")
DISCARD_COPY = Verb("discard_copy", "DELETE", _COPY, None, NoneType)
KEEP_DISKS = Verb("keep_disks", "PUT", _KEPT, None, NoneType, "forget_kept")
FORGET_KEPT = Verb("forget_kept", "DELETE", _KEPT, None, NoneType)
RESTORE_KEPT = Verb(
    "restore_kept", "PUT", f"{_KEPT}/restored", None, NoneType, "take_back_restored"
)
TAKE_BACK_RESTORED = Verb("take_back_restored", "DELETE", f"{_KEPT}/restored", None, NoneType)

SHOW_CAPTURE = Verb("show_capture", "GET", _CAPTURE, None, Capture)
PUT_CAPTURE = Verb("put_capture", "PUT", _CAPTURE, None, Capture, "delete_capture")
READ_CAPTURE = Verb("read_capture", "GET", f"{_CAPTURE}/data", None, bytes)
DELETE_CAPTURE = Verb("delete_capture", "DELETE", _CAPTURE, None, NoneType)

CONNECT = Verb("connect", "PUT", _CONNECTION, ConnectRequest, Connected, "disconnect")
DISCONNECT = Verb("disconnect", "DELETE", _CONNECTION, None, NoneType)

PLUG_DISK = Verb("plug_disk", "PUT", _DISK, DiskSpec, GuestDisk, "unplug_disk")
UNPLUG_DISK = Verb("unplug_disk", "DELETE", _DISK, None, Unplugged, also=_CONNECTION)
SHOW_DISK_SIZE = Verb("show_disk_size", "GET", f"{_DISK}/size", None, DiskSize)
RESIZE_DISK = Verb(
    "resize_disk", "PUT", f"{_DISK}/size", DiskSizeRequest, DiskSize, "forget_resize"
)
FORGET_RESIZE = Verb("forget_resize", "DELETE", f"{_DISK}/size", None, NoneType)
SNAPSHOT_DISK = Verb(
    "snapshot_disk", "PUT", _OVERLAY, OverlayRequest, ActiveFile, "take_back_snapshot"
)
TAKE_BACK_SNAPSHOT = Verb("take_back_snapshot", "DELETE", _OVERLAY, None, NoneType)
MERGE_DISK = Verb("merge_disk", "PUT", _MERGE, MergeRequest, ActiveFile, "stop_merge")
STOP_MERGE = Verb("stop_merge", "DELETE", _MERGE, None, NoneType)

SHOW_MIRRORING = Verb("show_mirroring", "GET", _MIRROR, None, Mirroring)
MIRROR_DISK = Verb("mirror_disk", "PUT", _MIRROR, DiskSpec, NoneType, "stop_mirror")
STOP_MIRROR = Verb("stop_mirror", "DELETE", _MIRROR, None, NoneType, also=_CONNECTION)
SWITCH_DISK = Verb("switch_disk", "PUT", f"{_MIRROR}/switch", SwitchRequest, GuestDisk)

LIST_SHARE_MOUNTS = Verb("list_share_mounts", "GET", "/share-mounts", None, list[MountedShare])
MOUNT_SHARE = Verb("mount_share", "PUT", _GUEST_SHARE, MountRequest, Mounted, "unmount_share")
UNMOUNT_SHARE = Verb("unmount_share", "DELETE", _GUEST_SHARE, None, NoneType)

SHOW_VOLUME = Verb("show_volume", "GET", _VOLUME, None, VolumeFile)
PUT_VOLUME = Verb("put_volume", "PUT", _VOLUME, VolumeSpec, VolumeFile, "delete_volume")
DELETE_VOLUME = Verb("delete_volume", "DELETE", _VOLUME, None, NoneType)
CLAIM_VOLUME = Verb("claim_volume", "POST", _VOLUME, None, NoneType)
EXTEND_VOLUME = Verb(
    "extend_volume", "PUT", f"{_VOLUME}/size", SizeRequest, Extended, "forget_extend"
)
FORGET_EXTEND = Verb("forget_extend", "DELETE", f"{_VOLUME}/size", None, NoneType)
SHOW_COPYING = Verb("show_copying", "GET", f"{_VOLUME}/content", None, Copying)
REPLACE_CONTENT = Verb(
    "replace_content", "PUT", f"{_VOLUME}/content", ContentRequest, VolumeFile, "forget_content"
)
FORGET_CONTENT = Verb("forget_content", "DELETE", f"{_VOLUME}/content", None, NoneType)
ADOPT_COPY = Verb("adopt_copy", "PUT", f"{_VOLUME}/copies/{{copy_id}}", AdoptRequest, VolumeFile)
EXPORT_VOLUME = Verb("export_volume", "PUT", _EXPORT, ExportRequest, Export, "unexport_volume")
UNEXPORT_VOLUME = Verb("unexport_volume", "DELETE", _EXPORT, None, NoneType)
SHOW_VOLUME_CAPTURE = Verb("show_volume_capture", "GET", _VOLUME_CAPTURE, None, Capture)
PUT_VOLUME_CAPTURE = Verb(
    "put_volume_capture", "PUT", _VOLUME_CAPTURE, CaptureRequest, Capture, "delete_volume_capture"
)
READ_VOLUME_CAPTURE = Verb("read_volume_capture", "GET", f"{_VOLUME_CAPTURE}/data", None, bytes)
DELETE_VOLUME_CAPTURE = Verb("delete_volume_capture", "DELETE", _VOLUME_CAPTURE, None, NoneType)
SHOW_HOLDERS = Verb("show_holders", "GET", f"{_VOLUME}/holders", None, Holders)
FENCE_HOLDER = Verb("fence_holder", "PUT", _FENCE, None, NoneType, "lift_fence")
LIFT_FENCE = Verb("lift_fence", "DELETE", _FENCE, None, NoneType)

SHOW_SNAPSHOT = Verb("show_snapshot", "GET", _SNAPSHOT, None, SnapshotFile)
PUT_SNAPSHOT = Verb("put_snapshot", "PUT", _SNAPSHOT, SnapshotSpec, SnapshotFile, "delete_snapshot")
DELETE_SNAPSHOT = Verb("delete_snapshot", "DELETE", _SNAPSHOT, None, NoneType)
REVERT_VOLUME = Verb(
    "revert_volume", "PUT", f"{_SNAPSHOT}/content", None, VolumeFile, "forget_revert"
)
FORGET_REVERT = Verb("forget_revert", "DELETE", f"{_SNAPSHOT}/content", None, NoneType)
RECORD_MERGE = Verb("record_merge", "PUT", f"{_SNAPSHOT}/merge", None, NoneType)

# Those that take something back name the pool in their query, as debts do; without it all pools.
SHOW_SHARE = Verb("show_share", "GET", _SHARE, None, HostedShare)
PUT_SHARE = Verb("put_share", "PUT", _SHARE, ShareSpec, ShareExports, "delete_share")
DELETE_SHARE = Verb("delete_share", "DELETE", _SHARE, None, NoneType)
CLAIM_SHARE = Verb("claim_share", "POST", _SHARE, None, NoneType)
RESIZE_SHARE = Verb(
    "resize_share", "PUT", f"{_SHARE}/size", ShareSizeRequest, ShareSize, "forget_share_size"
)
FORGET_SHARE_SIZE = Verb("forget_share_size", "DELETE", f"{_SHARE}/size", None, NoneType)
GRANT_ACCESS = Verb("grant_access", "PUT", _ACCESS, AccessRule, AccessGranted, "revoke_access")
REVOKE_ACCESS = Verb("revoke_access", "DELETE", _ACCESS, None, NoneType)
PUT_SHARE_SNAPSHOT = Verb(
    "put_share_snapshot",
    "PUT",
    _SHARE_SNAPSHOT,
    ShareSnapshotSpec,
    NoneType,
    "delete_share_snapshot",
)
DELETE_SHARE_SNAPSHOT = Verb("delete_share_snapshot", "DELETE", _SHARE_SNAPSHOT, None, NoneType)

VERBS: dict[str, Verb[Any]] = {
    one.name: one for one in list(globals().values()) if isinstance(one, Verb)
}
"""All of them, by name."""
_PATTERNS = {
    one.name: re.compile(_PLACE.sub(rf"(?P<\1>{_ID})", one.path)) for one in VERBS.values()
}


def find(method: str, path: str) -> tuple[Verb[Any], dict[str, str]] | None:
    """Return the verb that a request asks for and the ids in its path; None when there is none."""
    for verb in VERBS.values():
        if verb.method == method and (found := _PATTERNS[verb.name].fullmatch(path)):
            return verb, found.groupdict()
    return None


def are_ids(texts: Iterable[str]) -> bool:
    """Tell whether all of these may name resources in a path."""
    return all(_NAMES.fullmatch(text) for text in texts)


def find_undo(target: str) -> tuple[Verb[Any], dict[str, str]] | None:
    """Return the verb that a debt's path with its query asks for; None unless it undoes another.

    The words are its ids and its query, by name.
    """
    path, _, query = target.partition("?")
    found = find("DELETE", path)
    if found is None or all(verb.undone_by != found[0].name for verb in VERBS.values()):
        return None
    return found[0], found[1] | dict(parse_qsl(query))
