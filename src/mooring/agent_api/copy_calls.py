"""The client's verbs about the disks that a guest has on its host."""

from __future__ import annotations

from mooring.agent_api import verbs
from mooring.agent_api.calls import Calls
from mooring.agent_api.copies import CopyProgress, Offer
from mooring.fence.operation import Operation
from mooring.limits import AGENT_LONG_CALL_S


class CopyCalls(Calls):
    """A part of `AgentClient`."""

    async def put_offer(
        self,
        server_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> Offer:
        """Have a host offer the disks of a guest that is off; without any, `disks` is empty.

        Asked again, by the same operation, it gives a key more; another operation's keys are worth
        nothing from then on, and none is after the agent has started anew. Never keep the answer:
        ask again. What starts, defines or removes the guest withdraws the offer. NotFound;
        Conflict: the guest is not off.
        """
        return await self.ask(verbs.PUT_OFFER, server_id, operation=operation, timeout_s=timeout_s)

    async def withdraw_offer(self, server_id: str, *, operation: Operation | None = None) -> None:
        """Have a host offer a guest's disks no more. The guest and its disks stay."""
        await self.ask(verbs.WITHDRAW_OFFER, server_id, operation=operation)

    async def put_copy(
        self,
        server_id: str,
        offer: Offer,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> CopyProgress:
        """Have a host fetch the disks that another one offers; it goes on where it stopped.

        From then on `put_server` takes them, with `RootDisk(copied=True)`. Unavailable: the other
        host does not give them, or not all; with a fresh offer, ask again. NoCapacity: no room.
        Conflict: the host has such a guest, or its hypervisor is another one. Invalid: the disks
        are none that a host would offer.
        """
        return await self.ask(
            verbs.PUT_COPY, server_id, body=offer, operation=operation, timeout_s=timeout_s
        )

    async def show_copy(self, server_id: str) -> CopyProgress:
        """Return how much has come. NotFound: nothing was asked for, or it was discarded."""
        return await self.ask(verbs.SHOW_COPY, server_id)

    async def discard_copy(
        self,
        server_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """End a copy and remove what has come of it; nothing of a guest that is defined by now."""
        await self.ask(verbs.DISCARD_COPY, server_id, operation=operation, timeout_s=timeout_s)

    async def keep_disks(
        self,
        server_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """Keep the disks of a guest that is off as they are now, beside those that it uses.

        For a guest that stays on its host and is to come back to them. NotFound; NoCapacity;
        Conflict: the guest is not off.
        """
        await self.ask(verbs.KEEP_DISKS, server_id, operation=operation, timeout_s=timeout_s)

    async def forget_kept(
        self,
        server_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """Remove what was kept, or put aside; what the guest uses stays."""
        await self.ask(verbs.FORGET_KEPT, server_id, operation=operation, timeout_s=timeout_s)

    async def restore_kept(self, server_id: str, *, operation: Operation | None = None) -> None:
        """Give a guest that is off what was kept, in place of what it uses; nothing when none was.

        What it used is put aside until `forget_kept`. Define it anew after that: the disks may be
        smaller. Conflict: it is not off.
        """
        await self.ask(verbs.RESTORE_KEPT, server_id, operation=operation)

    async def take_back_restored(
        self, server_id: str, *, operation: Operation | None = None
    ) -> None:
        """Give a guest that is off what was put aside, and keep what was restored once more.

        Nothing when nothing was restored. Conflict: it is not off.
        """
        await self.ask(verbs.TAKE_BACK_RESTORED, server_id, operation=operation)
