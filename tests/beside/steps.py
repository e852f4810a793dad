"""Runs steps of a story one after the other, and sees that each leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from openstack.exceptions import SDKException

from tests.beside.programs import Failed
from tests.beside.users import User
from tests.contract.clients import Cloud, Refused

Step = Callable[[User], None]


def run_steps(user: User, steps: Sequence[Step]) -> int:
    """Run steps, print how each went and how long it took; return how many failed."""
    failed = 0
    for step in steps:
        began = time.monotonic()
        try:
            step(user)
            left = left_behind(user)
            if left:
                raise Failed(f"left behind: {'; '.join(left)}")
        except (AssertionError, Failed, Refused, SDKException, subprocess.TimeoutExpired) as error:
            failed += 1
            said = f"FAILED {error}\n{''.join(traceback.format_tb(error.__traceback__)[-2:])}"
            sweep(user)
        else:
            said = "ok"
        what = (step.__doc__ or step.__name__).strip().partition("\n")[0]
        sys.stdout.write(f"{time.monotonic() - began:6.1f} s  {what}  {said}\n")
        sys.stdout.flush()
    return failed


def left_behind(user: User) -> list[str]:
    """Return what is there that a step should have removed, in words."""
    found = [f"server {one.id}" for one in user.connection.compute.servers()]
    found += [f"volume {one.id} {one.status}" for one in user.connection.block_storage.volumes()]
    listed = user.volume("GET", "/attachments?all_tenants=1")["attachments"]
    found += [f"attachment {one['id']} of volume {one['volume_id']}" for one in listed]
    found += [f"share {one['id']} {one['status']}" for one in _shares(user)]
    for provider in user.connection.placement.resource_providers():
        path = f"/resource_providers/{provider.id}/allocations"
        answer = user.connection.placement.get(path).json()
        found += [f"allocation of {consumer}" for consumer in answer["allocations"]]
    return found


def sweep(user: User) -> None:
    """Remove what a failed step has left, so that the next one is held up by nothing of it."""
    compute, storage = user.connection.compute, user.connection.block_storage
    for server in compute.servers():
        compute.delete_server(server, force=server.status == "ERROR", ignore_missing=True)
    _until_none(lambda: list(compute.servers()))
    for snapshot in storage.snapshots():
        storage.delete_snapshot(str(snapshot.id), ignore_missing=True)
    _until_none(lambda: list(storage.snapshots()))
    for volume in storage.volumes():
        storage.delete_volume(str(volume.id), force=True, ignore_missing=True)
    _until_none(lambda: list(storage.volumes()))

    for share in _shares(user):
        _sweep_share(user, share["id"])
    _until_none(lambda: _shares(user))


def _shares(user: User) -> list[Any]:
    return user.share("GET", "/shares/detail?all_tenants=1")["shares"]


def _sweep_share(user: User, share: str) -> None:
    path = f"/shares/{share}/action"
    for rule in user.share("GET", f"/share-access-rules?share_id={share}")["access_list"]:
        deny = {"access_id": rule["id"], "unrestrict": True}
        with suppress(Failed):
            user.share("POST", path, {"deny_access": deny})
    _until_none(lambda: [*user.rules(share)])
    with suppress(Failed):
        user.share("POST", path, {"force_delete": None})


def _until_none(look: Callable[[], Sequence[object]]) -> None:
    deadline = time.monotonic() + 30.0
    while look() and time.monotonic() < deadline:
        time.sleep(0.5)


def ask_doctor(cloud: Cloud) -> int:
    """Let the doctor look, who prints what he finds; return his exit code."""
    command = [sys.executable, "-m", "mooring.main", "doctor", "--state-dir", cloud.state_dir]
    return subprocess.run(command, check=False).returncode
