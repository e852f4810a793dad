"""Scenarios of the sagas that change the files under a guest, as a volume service asks for them.

The volume service's half is a desk that finishes a snapshot as soon as compute has done its part.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from mooring.compute.snapshots.sagas.delete_volume_snapshot import DELETE_VOLUME_SNAPSHOT
from mooring.compute.snapshots.sagas.snapshot_volume import SNAPSHOT_VOLUME
from tests.compute.snapshot_desk import SnapshotDesk, is_of_snapshot
from tests.crowd.case import Case
from tests.laws import basics
from tests.laws.sites import COMPUTE, Scenario, Site

SNAPSHOT = "7d1f9b0a-0c0e-4b53-9f0e-6a5f0e1b2c31"
PATH = f"{COMPUTE}/os-assisted-volume-snapshots"


class Desk:
    """The snapshots of one site, and whether the guest writes where they say. A `StandIn`."""

    def __init__(self) -> None:
        self._desk = SnapshotDesk()

    def begin(self, snapshot_id: str, status: str) -> None:
        """Let the volume service be about to make or delete a snapshot."""
        self._desk.statuses[snapshot_id] = status

    def answer(self, method: str, path: str, content: bytes) -> tuple[int, bytes] | None:
        if not path.startswith("/volume/") or not is_of_snapshot(path):
            return None
        status, body = self._desk.answer(method, path, content)
        return status, b"" if body is None else json.dumps(body).encode()

    async def see(self, site: Site) -> dict[str, list[str]]:
        del site
        shown = [f"{which} {status}" for which, status in sorted(self._desk.statuses.items())]
        return {"snapshots": shown} if shown else {}

    async def complaints(self, site: Site) -> list[str]:
        found = [
            f"snapshot {which} is {status}, and compute says nothing"
            for which, status in self._desk.statuses.items()
            if status in {"creating", "deleting"}
        ]
        inventory = await site.cloud.known_agents["h1"].inventory()
        for disk in (disk for guest in inventory.guests for disk in guest.disks):
            name = disk.path.rpartition(".")[2]
            status = self._desk.statuses.get(name)
            if status is not None and status.startswith("error") and status != "error_deleting":
                found.append(f"the guest writes to the file of snapshot {name}, which is {status}")
        for which, status in self._desk.statuses.items():
            files = [disk.path for guest in inventory.guests for disk in guest.disks]
            if status == "available" and files and not files[0].endswith(which):
                found.append(f"snapshot {which} is available, and the guest writes to {files[0]}")
        return found


async def create(site: Site, snapshot_id: str = SNAPSHOT) -> Any:
    """Ask for a snapshot as a volume service does."""
    _desk_of(site).begin(snapshot_id, "creating")
    new_file = f"volume-{site.names['volume']}.{snapshot_id}"
    info = {"snapshot_id": snapshot_id, "type": "qcow2", "new_file": new_file}
    body = {"snapshot": {"volume_id": site.names["volume"], "create_info": info}}
    return await site.ask("POST", PATH, body, user="volume")


async def delete(site: Site, snapshot_id: str = SNAPSHOT) -> Any:
    """Ask for the merge that a snapshot's deletion needs."""
    _desk_of(site).begin(snapshot_id, "deleting")
    info: dict[str, Any] = {"volume_id": site.names["volume"], "type": "qcow2"}
    info |= {"file_to_merge": None, "merge_target_file": None}
    path = f"{PATH}/{snapshot_id}?delete_info={quote(json.dumps(info))}"
    return await site.ask("DELETE", path.replace("{", "{{").replace("}", "}}"), user="volume")


def _desk_of(site: Site) -> Desk:
    if not isinstance(site.stand_in, Desk):
        site.stand_in = Desk()
    return site.stand_in


async def a_snapshot(site: Site) -> None:
    """A server that runs, with a volume that has a snapshot."""
    await basics.a_server_with_volume(site)
    await create(site)
    await site.cloud.settle()


HALVES = [
    Scenario("snapshot files", SNAPSHOT_VOLUME, basics.a_server_with_volume, create),
    Scenario("merge files", DELETE_VOLUME_SNAPSHOT, a_snapshot, delete),
]
CROWD = [
    Case(
        route="POST /os-assisted-volume-snapshots",
        body={
            "snapshot": {
                "volume_id": "00000000-0000-4000-8000-00000000000#",
                "create_info": {
                    "snapshot_id": "00000000-0000-4000-8000-00000000001#",
                    "type": "qcow2",
                    "new_file": "file#",
                },
            }
        },
        refused=True,
    ),
    Case(
        route="DELETE /os-assisted-volume-snapshots/{snapshot_id}",
        path="/os-assisted-volume-snapshots/00000000-0000-4000-8000-00000000001#"
        "?delete_info=%7B%22volume_id%22%3A%2200000000-0000-4000-8000-00000000000#%22%7D",
        refused=True,
    ),
]
