"""The client's verbs about guests that go from one host to another."""

from __future__ import annotations

from mooring.agent_api import verbs
from mooring.agent_api.calls import Calls
from mooring.agent_api.moves import Arrival, Portrait, Progress
from mooring.fence.operation import Operation
from mooring.limits import AGENT_LONG_CALL_S


class MoveCalls(Calls):
    """A part of `AgentClient`."""

    async def show_portrait(self, server_id: str) -> Portrait:
        """Return what a guest needs of another host. NotFound; Conflict: it does not run."""
        return await self.ask(verbs.SHOW_PORTRAIT, server_id)

    async def put_arrival(
        self,
        server_id: str,
        portrait: Portrait,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """Have a host expect a guest, with an empty root disk where that one's is on its host.

        Conflict: it cannot run it, or cannot be sent any; NotFound: the image of its root disk is
        not in the cache; NoCapacity.
        """
        await self.ask(
            verbs.PUT_ARRIVAL, server_id, body=portrait, operation=operation, timeout_s=timeout_s
        )

    async def show_arrival(self, server_id: str) -> Arrival:
        """Return where a host takes a guest in, with the volumes that it has connected for it."""
        return await self.ask(verbs.SHOW_ARRIVAL, server_id)

    async def delete_arrival(
        self,
        server_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """Have a host expect a guest no more. Conflict: the guest is there."""
        await self.ask(verbs.DELETE_ARRIVAL, server_id, operation=operation, timeout_s=timeout_s)

    async def put_departure(
        self,
        server_id: str,
        arrival: Arrival,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """Send a guest to where it is expected; its definition stays, as `migrated`, until deleted.

        What goes on after `timeout_s` is Unavailable with the detail `goes_on`. Any other error
        tells nothing of where the guest is: ask both hosts.
        """
        await self.ask(
            verbs.PUT_DEPARTURE, server_id, body=arrival, operation=operation, timeout_s=timeout_s
        )

    async def show_departure(self, server_id: str) -> Progress:
        """Return how far a guest is on its way. NotFound."""
        return await self.ask(verbs.SHOW_DEPARTURE, server_id)

    async def cancel_departure(
        self,
        server_id: str,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_LONG_CALL_S,
    ) -> None:
        """Stop sending a guest: from then on it is wherever it is, and goes nowhere."""
        await self.ask(verbs.CANCEL_DEPARTURE, server_id, operation=operation, timeout_s=timeout_s)

    async def hasten_departure(self, server_id: str, *, operation: Operation | None = None) -> None:
        """Hold a guest still until it has arrived. Conflict: it is not on its way."""
        await self.ask(verbs.HASTEN_DEPARTURE, server_id, operation=operation)
