"""What tests of swaps ask, and what a swap has left when it is over."""

from __future__ import annotations

from typing import Any

from tests.answers import Answer
from tests.compute.cloud import ComputeCloud

GIB = 1 << 30


async def swap(cloud: ComputeCloud, server_id: str, old: str, new: str, **how: Any) -> Answer:
    """Ask for a swap, as an administrator unless told otherwise."""
    body = {"volumeAttachment": {"volumeId": new, **how.pop("more", {})}}
    how = {"user": "admin", "version": "2.1", **how}
    return await cloud.ask("PUT", f"/servers/{server_id}/os-volume_attachments/{old}", body, **how)


async def prepare(cloud: ComputeCloud, size_gib: int = 1) -> tuple[str, str, str]:
    server_id, old = await cloud.make_attached()
    return server_id, old, await cloud.make_volume(size_gib)


class Stand:
    """What a swap has left: both volumes' states, the server's volumes, the guest's, the host's."""

    def __init__(self, cloud: ComputeCloud, ids: tuple[str, str, str]) -> None:
        self.cloud, (self.server_id, self.old, self.new) = cloud, ids

    async def check(self, has: str, free: str, status: str = "ACTIVE") -> None:
        cloud = self.cloud
        assert await cloud.volume_status(has) == "in-use"
        assert await cloud.volume_status(free) == "available"
        shown = await cloud.attachments(self.server_id)
        assert [one["volumeId"] for one in shown] == [has]
        assert shown[0]["device"] == "/dev/vdb"
        assert await cloud.disks(self.server_id) == [has]
        assert await cloud.connections() == [has]
        assert (await cloud.server(self.server_id))["status"] == status

    async def check_done(self) -> None:
        await self.check(self.new, self.old)
        assert (await self.cloud.actions(self.server_id))[-1] == ("swap_volume", None)

    async def check_undone(self) -> None:
        await self.check(self.old, self.new)
        assert (await self.cloud.actions(self.server_id))[-1] == ("swap_volume", "Error")
        assert "fault" not in await self.cloud.server(self.server_id)
