"""The share service, as its callers see it: ours, or a real Manila.

Source: facts/shared_file_systems.md 0, 4 and 13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct, field

from mooring.errors import Invalid, NotFound

if TYPE_CHECKING:
    from mooring.clients.session import Caller, Session
    from mooring.fence.operation import Operation

T = TypeVar("T")

_PAGE = 500
"""Locks that are asked for at a time."""
VERSION = "2.82"
"""The lowest microversion whose access rules are locked as they are made; a Nova speaks it too."""


class Share(Struct, frozen=True):
    """One share. `protocol` is NFS, CEPHFS or another one in upper case."""

    id: str
    status: str
    protocol: str = field(name="share_proto", default="")
    project_id: str = ""

    @property
    def is_changing(self) -> bool:
        """Whether an operation has it: its rules may be changed again when that has ended."""
        return self.status.endswith("ing") or self.status == "migrating_to"


class ExportLocation(Struct, frozen=True):
    """Where clients find a share; its owner prefers one, or none.

    Administrators, and they alone, are told of those that are for the share service's own use.
    """

    path: str
    preferred: bool = False
    is_admin_only: bool = False


class Rule(Struct, frozen=True):
    """One access rule. `access_key` is a secret: it goes into no notes and no log."""

    id: str
    access_type: str
    access_to: str
    state: str
    access_level: str = "rw"
    access_key: str | None = None
    metadata: dict[str, str] = {}


class NewRule(Struct, frozen=True, kw_only=True):
    """A rule that lets one client in, locked against everybody but services and administrators."""

    access_type: str
    access_to: str
    lock_reason: str
    metadata: dict[str, str] = {}
    access_level: str = "rw"
    lock_visibility: bool = True
    lock_deletion: bool = True


class LockedRule(Struct, frozen=True):
    """An access rule, with the share that it is of."""

    id: str
    share_id: str
    access_type: str
    access_to: str
    state: str
    metadata: dict[str, str] = {}


class _Lock(Struct, frozen=True):
    resource_id: str


class ShareClient:
    """Calls to the share API; each raises one of the nine kinds of `mooring.errors`."""

    def __init__(self, session: Session) -> None:
        self.session = session

    async def show(self, caller: Caller, share_id: str) -> Share:
        """Return one share. Raises NotFound."""
        return await self._read("GET", f"/shares/{_part(share_id)}", "share", Share, caller=caller)

    async def export_locations(self, caller: Caller, share_id: str) -> list[ExportLocation]:
        """Return where clients find a share; nothing before it is available. Raises NotFound."""
        path = f"/shares/{_part(share_id)}/export_locations"
        kind = list[ExportLocation]
        return await self._read("GET", path, "export_locations", kind, caller=caller)

    async def access_rules(self, caller: Caller, share_id: str) -> list[Rule]:
        """Return the rules of a share, with the clients that the caller may see.

        Raises NotFound for a share that is gone, which Manila answers with 400.
        """
        path = "/share-access-rules?" + urlencode({"share_id": share_id})
        try:
            return await self._read("GET", path, "access_list", list[Rule], caller=caller)
        except Invalid:
            await self.show(caller, share_id)
            raise

    async def locked_rules(self, caller: Caller, reason: str) -> list[str]:
        """Return the ids of access rules that the caller's project has locked for a reason."""
        found: list[str] = []
        while True:
            query = {
                "resource_type": "access_rule",
                "resource_action": "delete",
                "lock_reason": reason,
                "limit": _PAGE,
                "offset": len(found),
            }
            path = f"/resource-locks?{urlencode(query)}"
            page = await self._read("GET", path, "resource_locks", list[_Lock], caller=caller)
            found += [lock.resource_id for lock in page]
            if len(page) < _PAGE:
                return found

    async def has_locked(self, caller: Caller, rule_id: str, reason: str) -> bool:
        """Whether the caller's project has locked an access rule for a reason."""
        query = {
            "resource_id": rule_id,
            "resource_type": "access_rule",
            "resource_action": "delete",
            "lock_reason": reason,
        }
        path = f"/resource-locks?{urlencode(query)}"
        return bool(await self._read("GET", path, "resource_locks", list[_Lock], caller=caller))

    async def access_rule(self, caller: Caller, rule_id: str) -> LockedRule:
        """Return one access rule. Raises NotFound."""
        path = f"/share-access-rules/{_part(rule_id)}"
        return await self._read("GET", path, "access", LockedRule, caller=caller)

    async def allow_access(
        self, caller: Caller, share_id: str, new: NewRule, *, operation: Operation | None = None
    ) -> Rule:
        """Start to let a client in; the rule is in the queue. Needs an administrator's role.

        Raises Invalid for a client that has a rule in any state, and for a share that is changing.
        """
        body = msgspec.to_builtins(new)
        return await self._read(
            "POST",
            f"/shares/{_part(share_id)}/action",
            "access",
            Rule,
            caller=caller,
            json={"allow_access": body},
            operation=operation,
        )

    async def deny_access(
        self, caller: Caller, share_id: str, rule_id: str, *, operation: Operation | None = None
    ) -> None:
        """Start to keep a client out, whatever locks its rule; the rule goes when that is so.

        A rule that is gone is fine. Raises Invalid while the share is changing, Forbidden for locks
        that the caller may not pass over.
        """
        body = {"deny_access": {"access_id": rule_id, "unrestrict": True}}
        path = f"/shares/{_part(share_id)}/action"
        try:
            await self.session.request(
                "POST", path, caller=caller, json=body, version=VERSION, operation=operation
            )
        except NotFound:
            return

    async def _read(self, method: str, path: str, key: str, form: type[T], **how: Any) -> T:
        return await self.session.read(method, path, key, form, version=VERSION, **how)


def _part(text: str) -> str:
    """Write an id as one part of a path, whatever it holds."""
    return quote(text, safe="")
