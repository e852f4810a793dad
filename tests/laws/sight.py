"""What users, operators and hosts see of a cloud: rows, guests, storage. Times are left out.

Ids of what was arranged are shown by their names, other ids as `*`. A server in ERROR, and a volume
in an error status, stand apart from the sound ones, because failures may leave them behind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from msgspec.structs import replace
from sqlalchemy import LargeBinary, Table, select
from sqlalchemy.orm import Session

from mooring.agent import config_drives, iso9660
from mooring.agent.host import Agent
from mooring.agent_api.shares import HostedShare
from mooring.compute.tables import Base as ComputeBase
from mooring.identity.tables import Base as IdentityBase
from mooring.image.tables import Base as ImageBase
from mooring.placement.tables import Base as PlacementBase
from mooring.share.tables import Base as ShareBase
from mooring.store.base import UtcTime
from mooring.store.prepared import Prepared
from mooring.volume.tables import Base as VolumeBase
from tests.cloud import SimulatedCloud

_BASES = {
    "identity": IdentityBase,
    "image": ImageBase,
    "placement": PlacementBase,
    "volume": VolumeBase,
    "share": ShareBase,
    "compute": ComputeBase,
}
_COUNTERS = frozenset({"position", "action_id", "takings", "generation", "free_gib", "updated_at"})
_LOCKS = frozenset({"quota_projects", "quota_locks"})
_SECRETS = frozenset({"borrowed_for", "password_hash"})
_RANDOM = frozenset({"data_name"})
"""Columns that name what each attempt makes anew."""
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_RESERVATION = re.compile(r"\br-[0-9a-f]{8}\b")
_PARTS = (
    *("server_metadata", "server_tags", "server_group_members"),
    *("block_devices", "disk_places", "share_mappings", "share_places"),
)


async def see(cloud: SimulatedCloud, names: Mapping[str, str]) -> dict[str, Any]:
    """Return all that can be seen, by kind, in an order of its own."""
    seen: dict[str, list[Any]] = {}
    for service, base in _BASES.items():
        tables = base.metadata.sorted_tables
        found = await cloud.cloud.stores[service].read(lambda tx, those=tables: _read(tx, those))
        for name, rows in found.items():
            seen.setdefault(name, []).extend(rows)
    _set_apart(seen)
    for name in cloud.known_agents:
        inventory = await cloud.known_agents[name].inventory()
        seen.setdefault("guests", []).extend(_plain(inventory.guests))
        seen.setdefault("storage", []).extend(_plain(inventory.volumes))
        shares = [_in_order(share) for share in inventory.shares]
        seen.setdefault("hosted_shares", []).extend(_plain(shares))
        seen.setdefault("share_mounts", []).extend(_plain(inventory.share_mounts))
        seen.setdefault("connections", []).extend(_plain(inventory.connections))
        seen.setdefault("disk_sizes", []).extend(_plain(inventory.disks))
        seen.setdefault("leftovers", []).extend(inventory.leftovers)
    seen["stored_backups"] = [
        {"backup": file.parent.name, "file": file.name}
        for file in (cloud.settings.state_path / "backups").glob("*/*")
    ]
    volumes = {row["id"] for kind in ("volumes", "sound_volumes") for row in seen[kind]}
    for name, agent in cloud.agents.items():
        brought = [image.image_id for image in agent.agent.images.images()]
        seen.setdefault("brought_backups", []).extend(
            {"host": name, "to": image_id} for image_id in brought if image_id in volumes
        )
        seen.setdefault("config_drives", []).extend(_read_drives(name, agent.agent))
        seen.setdefault("captures", []).extend(_find_captures(name, agent.agent))
    roles = {identity: f"<{role}>" for role, identity in names.items()}
    # Each trial has a directory of its own, which files and what refers to them are named after.
    root = str(cloud.settings.state_path)
    masked = {kind: sorted(_mask(row, roles, root) for row in rows) for kind, rows in seen.items()}
    return {kind: rows for kind, rows in masked.items() if rows}


def _find_captures(host: str, agent: Agent) -> Iterator[dict[str, Any]]:
    """Yield what there is of copies of guests' root disks, and of volumes."""
    for file in agent.volume_captures.glob("*/*"):
        yield {"host": host, "volume": file.parent.name, "file": file.name}
    if agent.runs_guests:
        for file in agent.hypervisor.guest_directory.glob("*/*.capture*"):
            yield {"host": host, "server": file.parent.name, "file": file.name}


def _read_drives(host: str, agent: Agent) -> Iterator[dict[str, Any]]:
    """Yield what guests are told on their drives, and what was never finished of a drive.

    The random seed is another one at each start.
    """
    if not agent.runs_guests:
        return
    for file in agent.hypervisor.guest_directory.glob(f"*/{config_drives.FILE}*"):
        told = json.loads(iso9660.read(file.read_bytes(), config_drives.META_DATA) or b"{}")
        told.pop("random_seed", None)
        yield {"host": host, "server": file.parent.name, "file": file.name, "told": told}


@cache
def _rows_of(table: Table) -> Prepared[tuple[Any, ...]]:
    return Prepared(select(table))


def _read(tx: Session, tables: list[Table]) -> dict[str, list[dict[str, Any]]]:
    return {
        table.name: [_row(table, values) for values in _rows_of(table).all(tx)]
        for table in tables
        if table.name not in _LOCKS
    }


def _row(table: Table, values: Sequence[Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for column, value in zip(table.columns, values, strict=True):
        if column.name in _COUNTERS or (column.name == "id" and isinstance(value, int)):
            continue
        hidden = isinstance(column.type, UtcTime | LargeBinary) or column.name in _SECRETS | _RANDOM
        shown[column.name] = bool(value) if hidden else value
    return shown


def _set_apart(seen: dict[str, list[Any]]) -> None:
    failed = {row["id"] for row in seen["servers"] if row["vm_state"] == "error"}
    owners = {row["id"]: row["server_id"] for row in seen["block_devices"]}
    for place in seen["disk_places"]:
        place["server_id"] = owners[place["block_device_id"]]
    having = {row["id"]: row["server_id"] for row in seen["share_mappings"]}
    for place in seen["share_places"]:
        place["server_id"] = having[place["mapping_id"]]
    for kind in ("servers", *_PARTS):
        key = "id" if kind == "servers" else "server_id"
        seen.setdefault("error_server", []).extend(r for r in seen[kind] if r[key] in failed)
        seen[kind] = [row for row in seen[kind] if row[key] not in failed]
    seen["instance_actions"].extend(seen.pop("instance_action_events"))
    backups = seen["backups"]
    seen["error_backups"] = [row for row in backups if row["status"].startswith("error")]
    seen["backups"] = [row for row in backups if not row["status"].startswith("error")]
    # As upstream, `os-attach` says of a volume that it may be written to, where nobody said so.
    everything: list[dict[str, Any]] = [
        {**row, "readonly": bool(row["readonly"])} for row in seen["volumes"]
    ]
    seen["sound_volumes"] = [row for row in everything if not row["status"].startswith("error")]
    seen["volumes"] = [row for row in everything if row["status"].startswith("error")]


def _in_order(share: HostedShare) -> HostedShare:
    """Return a share with its rules by their clients: a rule's id is another one in each trial."""
    return replace(share, rules=sorted(share.rules, key=lambda rule: (rule.type, rule.to)))


def _plain(structs: list[Any]) -> list[dict[str, Any]]:
    return [{name: getattr(one, name) for name in one.__struct_fields__} for one in structs]


def _mask(row: Any, roles: Mapping[str, str], root: str) -> str:
    text = json.dumps(row, sort_keys=True, default=repr).replace(root, "<state>")
    text = _UUID.sub(lambda found: roles.get(found.group(), "*"), text)
    return _RESERVATION.sub("*", text)
