"""Shares of simulated guests: a guest has those of its definition from its next start on."""

from __future__ import annotations

from mooring.agent.hypervisor import share_in_use
from mooring.agent.page_sizes import read_page_size
from mooring.agent.simulated_disks import SimulatedDisks
from mooring.agent.world import SimulatedGuest, say
from mooring.agent_api.guest_shares import GuestShare


class SimulatedGuestShares(SimulatedDisks):
    """A part of `SimulatedHypervisor`. `knobs` points: define, drop_share."""

    async def redefine_shares(self, server_id: str, shares: tuple[GuestShare, ...]) -> None:
        await self.knobs.at("define")
        guest = self._get(server_id)
        if shares:
            read_page_size(guest.mem_page_size)
        guest.shares = list(shares)
        self._world.save(guest)

    async def drop_share(self, server_id: str, share_id: str) -> None:
        await self.knobs.at("drop_share")
        if (guest := self._world.find(server_id)) is None:
            return
        if any(one.share_id == share_id for one in guest.live_shares):
            raise share_in_use(server_id, share_id)
        guest.shares = [one for one in guest.shares if one.share_id != share_id]
        self._world.save(guest)


def plug_shares(guest: SimulatedGuest) -> None:
    """Let a guest that starts have the shares of its definition."""
    guest.live_shares = guest.shares
    for share in guest.shares:
        say(guest, f"share {share.tag} mounted")
