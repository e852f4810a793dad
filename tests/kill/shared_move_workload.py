"""Servers with shares that go to another host while a process dies, and what is left of shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.compute.shares import access_rules
from tests.kill.harness import Answer, KilledCloud
from tests.kill.move_workload import COLD, CONFIRM, REVERT, move_off, shows

COMPUTE, SHARE = "/compute/v2.1", "/share/v2"
RELEASE, SWEEP = "compute.release_share", "compute.sweep_share"
_LEFT = ("unmount_left", "revoke_left", "forget_left_share")
STAYS = {f"{COLD}/{step}" for step in _LEFT}
"""What a cold move does with shares only when the guest stays."""
NOT_LET_GO = f"!{CONFIRM}/revoke_left/forward/before"
"""What `kill_at` must say so that the host that was left is still let in."""
_THERE = ("begin_sharing", "grant_there", "mount_there")
_BACK = ("grant_back", "mount_back")
_COLD, _REVERT = (*_THERE, *_LEFT), (*_BACK, *_LEFT)
OF_SHARES = {*_COLD, *_REVERT}
"""Steps of moves that a server without shares does not pass."""
Act = Callable[[], Answer]


def shared_move_operations(cloud: KilledCloud, stopped: str) -> dict[str, list[Act]]:
    """Return, by step or saga, what to do besides with a server that is off."""
    at = _At(cloud, stopped)
    return {
        **{f"{COLD}/{step}": [at.move] for step in _COLD},
        **{f"{CONFIRM}/{step}": [lambda: at.say("confirmResize")] for step in _LEFT},
        **{f"{REVERT}/{step}": [lambda: at.say("revertResize")] for step in _REVERT},
        RELEASE: [lambda: at.say("confirmResize")],
        SWEEP: [at.leak],
    }


class _At:
    """Asks a cloud that may die at any time; then it is asked no further."""

    def __init__(self, cloud: KilledCloud, server: str) -> None:
        self._cloud, self._path = cloud, f"{COMPUTE}/servers/{server}"
        self._server = server

    def move(self) -> Answer:
        """Give the server a share, start it, and move it."""
        share = self._make_share()
        body = {"share": {"share_id": share}}
        answer = self._ask("POST", f"{self._path}/shares", body)
        shown = f"{self._path}/shares/{share}"
        self._until(shown, "share", "inactive", "it has the share")
        if answer.status:
            self._ask("POST", f"{self._path}/action", {"os-start": None})
        self._until(self._path, "server", "ACTIVE", "it runs with the share")
        return move_off(self._cloud, self._server, version="2.106")

    def say(self, word: str) -> Answer:
        """Do so, and say what is to become of it."""
        self.move()
        self._until(self._path, "server", "VERIFY_RESIZE", "the server has moved")
        return self._ask("POST", f"{self._path}/action", {word: None})

    def leak(self) -> Answer:
        """Let a host in for no server, as compute does, and have the cloud look for such rules."""
        share = self._make_share()
        locks = {"lock_deletion": True, "lock_visibility": True, "lock_reason": access_rules.REASON}
        client = {"access_type": "ip", "access_to": "127.0.0.1", "metadata": access_rules.MARK}
        path, body = f"{SHARE}/shares/{share}/action", {"allow_access": {**client, **locks}}
        allowed = self._cloud.ask("POST", path, body, user="compute", version="2.82")
        assert allowed.status in {0, 200}, allowed
        return self._cloud.ask("POST", "/mooring/doctor", user="admin")

    def _make_share(self) -> str:
        body = {"share": {"share_proto": "NFS", "size": 1}}
        answer = self._cloud.ask("POST", f"{SHARE}/shares", body, version="2.82")
        share = answer.body["share"]["id"] if answer.status == 200 else "none"
        path = f"{SHARE}/shares/{share}"
        self._until(path, "share", "available", "the share is there", version="2.82")
        return share

    def _ask(self, method: str, path: str, body: Any) -> Answer:
        return self._cloud.ask(method, path, body, user="admin", version="2.106")

    def _until(
        self, path: str, kind: str, status: str, what: str, *, version: str = "2.106"
    ) -> None:
        self._cloud.until(lambda: self._shows(path, kind, status, version), what)

    def _shows(self, path: str, kind: str, status: str, version: str) -> bool:
        return shows(self._cloud, path, kind, status, version=version, user="admin")
