"""Shares while a process dies: each operation has a share of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.kill.harness import Answer, KilledCloud

SHARE = "/share/v2"
NEWEST = "2.82"
Act = Callable[[], Answer]
_CLIENT = {"access_type": "ip", "access_to": "10.0.0.1"}


def share_operations(cloud: KilledCloud) -> dict[str, list[Act]]:
    """Return, by saga, what to do besides."""
    at = _At(cloud)
    return {
        "share.create_share": [at.create],
        "share.create_share_from_snapshot": [at.copy],
        "share.delete_share": [at.delete],
        "share.force_delete_share": [lambda: at.act("force_delete", None)],
        "share.extend_share": [lambda: at.act("extend", {"new_size": 3})],
        "share.shrink_share": [lambda: at.act("shrink", {"new_size": 1})],
        "share.reset_status": [lambda: at.act("reset_status", {"status": "error"})],
        "share.reset_status/revoke_rule": [at.reset_denying],
        "share.reset_status/look_at_storage": [at.reset_growing],
        "share.apply_rule": [lambda: at.act("allow_access", _CLIENT)],
        "share.deny_rule": [at.deny],
        "share.create_snapshot": [lambda: at.take(at.made())],
        "share.delete_snapshot": [at.forget],
    }


class _At:
    """Asks a cloud that may die at any time: what is made is then `none`, and refused."""

    def __init__(self, cloud: KilledCloud) -> None:
        self._cloud = cloud

    def ask(self, method: str, path: str, body: Any = None, user: str = "admin") -> Answer:
        return self._cloud.ask(method, f"{SHARE}{path}", body, user=user, version=NEWEST)

    def create(self, **fields: Any) -> Answer:
        body = {"share": {"share_proto": "NFS", "size": 2, **fields}}
        return self.ask("POST", "/shares", body)

    def made(self) -> str:
        return self._ready("share", self.create())

    def act(self, action: str, value: Any) -> Answer:
        return self.ask("POST", f"/shares/{self.made()}/action", {action: value})

    def delete(self) -> Answer:
        share = self.made()
        self.ask("POST", f"/shares/{share}/action", {"allow_access": _CLIENT})
        return self.ask("DELETE", f"/shares/{share}")

    def deny(self) -> Answer:
        share, rule = self._allowed()
        return self._deny(share, rule)

    def reset_denying(self) -> Answer:
        """Reset the status while the host does not answer to a denial; later it does."""
        share, rule = self._allowed()
        self._cloud.until(lambda: self._is_let_in(rule), "the rule is active")
        with self._cloud.agent_frozen():
            self._deny(share, rule)
            self._cloud.until(lambda: self._is_at("revoke"), "the host is asked to deny it")
            return self._reset(share, "revoke_rule")

    def reset_growing(self) -> Answer:
        """Reset the status while the host does not answer to an extend; later it does.

        So nobody knows what the storage has, which is asked for that.
        """
        share = self.made()
        with self._cloud.agent_frozen():
            self.ask("POST", f"/shares/{share}/action", {"extend": {"new_size": 3}})
            # Before that it turns back, and there is nothing to ask.
            self._cloud.until(lambda: self._is_at("ask_storage"), "the host is asked")
            return self._reset(share, "look_at_storage")

    def _is_at(self, step: str) -> bool:
        """Whether an operation is at a step, or nobody can tell because the process is dead."""
        shown = self.ask("GET", "/mooring/operations")
        return not _is_well(shown) or step in {one["step"] for one in shown.body["operations"]}

    def _reset(self, share: str, step: str) -> Answer:
        """Reset a share's status, and wait until that asks the host, which does not answer."""
        body = {"reset_status": {"status": "error"}}
        answer = self.ask("POST", f"/shares/{share}/action", body)
        self._cloud.until(lambda: self._is_at(step), "the reset asks the host")
        return answer

    def _allowed(self) -> tuple[str, str]:
        share = self.made()
        allowed = self.ask("POST", f"/shares/{share}/action", {"allow_access": _CLIENT})
        return share, allowed.body["access"]["id"] if _is_well(allowed) else "none"

    def _deny(self, share: str, rule: str) -> Answer:
        path, body = f"/shares/{share}/action", {"deny_access": {"access_id": rule}}
        return self.ask("POST", path, body)

    def _is_let_in(self, rule: str) -> bool:
        shown = self.ask("GET", f"/share-access-rules/{rule}")
        return not _is_well(shown) or shown.body["access"]["state"] == "active"

    def take(self, share: str) -> Answer:
        return self.ask("POST", "/snapshots", {"snapshot": {"share_id": share}})

    def forget(self) -> Answer:
        return self.ask("DELETE", f"/snapshots/{self._ready('snapshot', self.take(self.made()))}")

    def copy(self) -> Answer:
        return self.create(snapshot_id=self._ready("snapshot", self.take(self.made())))

    def _ready(self, kind: str, answer: Answer) -> str:
        """Return the id of what was asked for, once it is there or the process is dead."""
        if not _is_well(answer):
            return "none"
        made: str = answer.body[kind]["id"]
        self._cloud.until(lambda: self._is_settled(kind, made), f"the {kind} is there")
        return made

    def _is_settled(self, kind: str, which: str) -> bool:
        shown = self.ask("GET", f"/{kind}s/{which}")
        return not _is_well(shown) or shown.body[kind]["status"] != "creating"


def _is_well(answer: Answer) -> bool:
    return 0 < answer.status < 300
