"""The client's verbs about shares in the pools of a host."""

from __future__ import annotations

from mooring.agent_api import verbs
from mooring.agent_api.calls import Calls
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
from mooring.fence.operation import Operation
from mooring.limits import AGENT_LONG_CALL_S


class ShareCalls(Calls):
    """A part of `AgentClient`. NotFound, in each that names a pool: the host has no such pool."""

    async def show_share(self, share_id: str) -> HostedShare | None:
        """Return a share of the host's pools, or None."""
        return await self.find(verbs.SHOW_SHARE, share_id)

    async def put_share(
        self,
        share_id: str,
        spec: ShareSpec,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> ShareExports:
        """Make a share, or find it; nobody may mount it yet.

        NoCapacity: the pool is full; Invalid: not of this protocol, size or snapshot; NotFound: no
        such pool or snapshot; Conflict: it is there with another size.
        """
        return await self.ask(
            verbs.PUT_SHARE, share_id, body=spec, operation=operation, timeout_s=timeout_s
        )

    async def delete_share(
        self,
        share_id: str,
        pool: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """Revoke all rules, then remove the share; nothing when there is none.

        Conflict: it has snapshots, and nothing was changed.
        """
        await self.ask(
            verbs.DELETE_SHARE, share_id, operation=operation, timeout_s=timeout_s, pool=pool
        )

    async def claim_share(
        self, share_id: str, *, operation: Operation, timeout_s: float = AGENT_LONG_CALL_S
    ) -> None:
        """Wait for what makes or removes a share, and let no such call of an older lock act.

        Nothing is changed, and there need be none.
        """
        await self.claim(verbs.CLAIM_SHARE, share_id, operation, timeout_s)

    async def resize_share(
        self,
        share_id: str,
        pool: str,
        size_gb: int,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> ShareSize:
        """Make a share larger or smaller, its clients at work, or find it so big.

        Conflict with the code `shares.IN_USE_SPACE` in its detail: more is in it, and nothing was
        changed. NoCapacity, NotFound, Invalid.
        """
        return await self.ask(
            verbs.RESIZE_SHARE,
            share_id,
            body=ShareSizeRequest(pool=pool, size_gb=size_gb),
            operation=operation,
            timeout_s=timeout_s,
        )

    async def forget_share_size(
        self,
        share_id: str,
        pool: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """End this operation's `resize_share`: a late one is 410. Its size stays as it is."""
        await self.ask(
            verbs.FORGET_SHARE_SIZE, share_id, operation=operation, timeout_s=timeout_s, pool=pool
        )

    async def grant_access(
        self,
        share_id: str,
        rule_id: str,
        rule: AccessRule,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> AccessGranted:
        """Let a client mount a share: the same call grants a rule, changes and repairs it.

        Invalid: no such client can be let in; Conflict: another rule is for the same client, or
        the pool's storage has given the id to somebody else; NotFound: no such share.
        """
        return await self.ask(
            verbs.GRANT_ACCESS,
            share_id,
            rule_id,
            body=rule,
            operation=operation,
            timeout_s=timeout_s,
        )

    async def revoke_access(
        self,
        share_id: str,
        rule_id: str,
        pool: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """Return when the rule is gone for its clients, also those that have the share mounted."""
        await self.ask(
            verbs.REVOKE_ACCESS,
            share_id,
            rule_id,
            operation=operation,
            timeout_s=timeout_s,
            pool=pool,
        )

    async def put_share_snapshot(
        self,
        share_id: str,
        snapshot_id: str,
        pool: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """Keep what is in a share now; nothing when that snapshot is there already.

        Invalid: the pool has no snapshots; NotFound: no such share; NoCapacity.
        """
        await self.ask(
            verbs.PUT_SHARE_SNAPSHOT,
            share_id,
            snapshot_id,
            body=ShareSnapshotSpec(pool),
            operation=operation,
            timeout_s=timeout_s,
        )

    async def delete_share_snapshot(
        self,
        share_id: str,
        snapshot_id: str,
        pool: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """Remove a snapshot; nothing when there is none."""
        await self.ask(
            verbs.DELETE_SHARE_SNAPSHOT,
            share_id,
            snapshot_id,
            operation=operation,
            timeout_s=timeout_s,
            pool=pool,
        )
