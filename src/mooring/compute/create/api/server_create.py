"""From the body of POST /servers to what is wanted (facts/compute.md 3, 9.5, 13.4)."""

from __future__ import annotations

import base64
import binascii
import re
import secrets
import string
from typing import Any, Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from mooring import limits
from mooring.compute.create.block_devices import NewBlockDevice
from mooring.compute.scheduling import company
from mooring.compute.servers.api.server_bodies import (
    Create,
    Device,
    LegacyDevice,
    ServerBody,
)
from mooring.compute.servers.servers import NewServer
from mooring.compute.wire.api.values import address, canonical_uuid, truth, whole
from mooring.errors import Invalid
from mooring.web.api import Version

MULTIATTACH_SINCE: Version = (2, 60)
_PASSWORD_LENGTH = 12
_ROOT = "vda"
_LABEL = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?")


def read(body: Create, version: Version, *, zero_disk_allowed: bool) -> NewServer:
    """Return what the body asks for. Raises Invalid for what this version or cloud refuses."""
    server = body.server
    _refuse_unbuilt(server)
    hints = {**body.old_hints, **body.hints}
    _check_company(hints)
    zone, host = _place(server)
    least, most = _counts(server)
    return NewServer(
        name=server.name,
        flavor_id=str(server.flavor_ref),
        image_id=server.image_ref,
        block_devices=_devices(server),
        network=_network(server),
        metadata=server.metadata,
        tags=list(dict.fromkeys(server.tags or [])),
        description=_description(server, version),
        hostname=_hostname(server, version, most),
        key_name=server.key_name,
        user_data=check_user_data(server.user_data),
        config_drive=truth(server.config_drive),
        disk_config=server.disk_config,
        access_ip_v4=address(server.access_ip_v4, "accessIPv4", 4) if server.access_ip_v4 else "",
        access_ip_v6=address(server.access_ip_v6, "accessIPv6", 6) if server.access_ip_v6 else "",
        availability_zone=zone,
        host=host,
        scheduler_hints=hints,
        group_id=_group(hints),
        zero_disk_allowed=zero_disk_allowed,
        min_count=least,
        max_count=most,
        multiattach_allowed=version >= MULTIATTACH_SINCE,
    )


def password(given: str | UnsetType | None) -> str:
    """Return the administrator's password that the answer shows: the one given, else a new one."""
    if given:
        return given
    letters = string.ascii_letters + string.digits
    return "".join(secrets.choice(letters) for _ in range(_PASSWORD_LENGTH))


def forces_host(body: ServerBody) -> Literal["", "zone", "body"]:
    """Tell how the body names a host, if it does: each way has a policy rule of its own."""
    if body.host or body.hypervisor_hostname:
        return "body"
    return "zone" if ":" in (body.availability_zone or "") else ""


def _refuse_unbuilt(server: ServerBody) -> None:
    if server.personality:
        raise Invalid(
            "Personality files are not built: nothing would put them into the guest. "
            "Use user_data instead."
        )
    if server.trusted_image_certificates:
        raise Invalid(
            "This cloud does not verify image signatures, so trusted_image_certificates cannot "
            "be honoured. Leave them out."
        )
    for group in server.security_groups:
        if group.name not in {"", "default"}:
            raise Invalid(
                f"Security group {group.name} not found: this cloud has no network service, so "
                "there is only the group default."
            )


def _group(hints: dict[str, Any]) -> str:
    """Return the id of the server group among the hints; "" for none. Raises Invalid."""
    if "group" not in hints:
        return ""
    found = canonical_uuid(str(hints["group"]))
    if found is None:
        raise Invalid(
            f"Invalid input for field/attribute group. Value: {str(hints['group'])[:64]}. "
            "It must be the id of a server group."
        )
    return found


def _check_company(hints: dict[str, Any]) -> None:
    """See that the servers to be with, or not, are named by ids. Raises Invalid."""
    for hint in (company.SAME, company.DIFFERENT):
        for named in company.named_in(hints, hint):
            if not isinstance(named, str) or canonical_uuid(named) is None:
                raise Invalid(
                    f"Invalid input for field/attribute {hint}. Value: {str(named)[:64]}. "
                    "It must be the id of a server, or a list of them."
                )


def _network(server: ServerBody) -> Literal["auto", "none"]:
    if server.networks == "none":
        return "none"
    if isinstance(server.networks, list) and server.networks:
        raise Invalid(
            "Network not found: this cloud has no network service. Ask for networks 'auto' "
            "(outgoing connections only) or 'none'."
        )
    return "auto"


def _place(server: ServerBody) -> tuple[str | None, str | None]:
    """Return availability zone and host. A zone may be written `zone:host` or `zone:host:node`."""
    zone, _, rest = (server.availability_zone or "").partition(":")
    forced, _, node = rest.partition(":")
    wanted = {name for name in (forced, node, server.host, server.hypervisor_hostname) if name}
    if len(wanted) > 1:
        raise Invalid(
            f"Hosts {', '.join(sorted(wanted))} are asked for at once; a host is its own node here."
        )
    return zone or None, next(iter(wanted), None)


def _counts(server: ServerBody) -> tuple[int, int]:
    least = whole(server.min_count, "min_count", least=1, most=limits.COMPUTE_SERVERS_AT_ONCE)
    if server.max_count is UNSET:
        return least, least
    most = whole(server.max_count, "max_count", least=1, most=limits.COMPUTE_SERVERS_AT_ONCE)
    if least > most:
        raise Invalid("min_count must be <= max_count")
    return least, most


def _description(server: ServerBody, version: Version) -> str | None:
    if version < (2, 19):
        return server.name
    return server.description or None


def _hostname(server: ServerBody, version: Version, most: int) -> str | None:
    if not server.hostname:
        return None
    if most > 1:
        raise Invalid("Hostname cannot be requested when booting more than one instance.")
    return check_hostname(server.hostname, version)


def check_hostname(text: str, version: Version) -> str:
    """Return a host name, from 2.94 on also one with a domain. Raises Invalid."""
    labels = text.split(".") if version >= (2, 94) else [text]
    if not all(_LABEL.fullmatch(label) for label in labels):
        domain = ", and several such parts with dots between" if version >= (2, 94) else ""
        raise Invalid(
            f"Invalid input for field/attribute hostname. Value: {text[:64]}. It must be 1 to 63 "
            f"letters, digits and hyphens, with no hyphen at either end{domain}."
        )
    return text


def check_user_data(text: str | None) -> str | None:
    """Return user data as it came. Raises Invalid unless it is base64."""
    if text is None:
        return None
    try:
        base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Invalid("Invalid input for field/attribute user_data: it is not base64.") from error
    return text


def _devices(server: ServerBody) -> list[NewBlockDevice]:
    new, old = server.block_device_mapping_v2, server.block_device_mapping
    if new and old:
        raise Invalid(
            "Using different block_device_mapping syntaxes is not allowed in one request."
        )
    if old:
        return _from_legacy(old, server.image_ref)
    return [_from_device(device) for device in new]


def _from_device(device: Device) -> NewBlockDevice:
    leftover = {
        "volume": device.volume_id,
        "snapshot": device.snapshot_id,
        "image": device.image_id,
    }.get(device.source_type)
    boot_index = None
    if device.boot_index is not None:
        boot_index = whole(device.boot_index, "boot_index", least=-(2**31))
    size = device.volume_size
    return NewBlockDevice(
        source_type=device.source_type,
        destination_type=device.destination_type,
        uuid=device.uuid or leftover,
        boot_index=None if boot_index is None or boot_index < 0 else boot_index,
        volume_size_gib=None if size is None else whole(size, "volume_size", least=1),
        volume_type=device.volume_type or None,
        delete_on_termination=truth(device.delete_on_termination),
        tag=device.tag or None,
        disk_bus=device.disk_bus,
        device_type=device.device_type,
        device_name=device.device_name or None,
        guest_format=device.guest_format or None,
        no_device=bool(device.no_device),
    )


def _from_legacy(items: list[LegacyDevice], image_id: str) -> list[NewBlockDevice]:
    """Read the older form: volumes by id, the root told by its name or by being alone."""
    found = [_from_legacy_item(item) for item in items if not item.no_device]
    roots = [at for at, item in enumerate(found) if item.device_name == _ROOT]
    if not image_id and found:
        at = roots[0] if roots else 0
        found[at] = replace(found[at], boot_index=0)
    return found


def _from_legacy_item(item: LegacyDevice) -> NewBlockDevice:
    if not (item.volume_id or item.snapshot_id):
        raise Invalid(
            "Block Device Mapping is Invalid: an item of block_device_mapping needs a volume_id. "
            "Use block_device_mapping_v2 for anything else."
        )
    size = item.volume_size
    return NewBlockDevice(
        source_type="volume" if item.volume_id else "snapshot",
        destination_type="volume",
        uuid=item.volume_id or item.snapshot_id,
        volume_size_gib=None if size is None else whole(size, "volume_size", least=1),
        delete_on_termination=truth(item.delete_on_termination),
        device_name=(item.device_name or "").removeprefix("/dev/") or None,
    )
