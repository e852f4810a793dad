"""The root and swap disks that guests have on their host: a part of every hypervisor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mooring.agent.hypervisor import RootPlan
    from mooring.agent.local_disks import LocalDisk
    from mooring.agent.swap_disks import SwapPlan
    from mooring.agent_api.images import CachedImage


class GuestRoots(Protocol):
    """A part of `Hypervisor`: makes such disks, and finds the files that root disks consist of."""

    async def make_root(
        self, server_id: str, image: CachedImage, source: Path, size_bytes: int, operation_key: str
    ) -> RootPlan:
        """Make the root disk from a cached image's file, or find the one that is there."""
        ...

    async def fill_root(
        self, server_id: str, image: CachedImage, source: Path, size_bytes: int, operation_key: str
    ) -> RootPlan:
        """Do the same with a root disk that stands alone, with a copy of what the image has."""
        ...

    @property
    def guest_directory(self) -> Path:
        """Where each guest has a directory with its files, named by its id."""
        ...

    @property
    def local_kinds(self) -> tuple[tuple[str, ...], ...]:
        """What root disks consist of, below first: over an image, and standing alone."""
        ...

    async def local_disks(self, server_id: str) -> list[LocalDisk]:
        """Return the files of a guest that is off, as `local_kinds` has them, or none at all.

        Raises NotFound, Conflict: it is not off.
        """
        ...

    async def take_in(self, server_id: str, brought: Sequence[Path]) -> None:
        """Give the files of another host's guest their names, once they are found harmless.

        Each stands in the guest's directory under its name with a suffix, unless it was taken in
        before. Raises Invalid, Unavailable.
        """
        ...

    async def find_root(
        self, server_id: str, image_id: str, size_bytes: int, operation_key: str
    ) -> RootPlan:
        """Return the root disk that was taken in, made as large as this; 0 leaves it so.

        Raises NotFound, NoCapacity, Invalid: it is larger.
        """
        ...

    async def make_swap(self, server_id: str, size_bytes: int, operation_key: str) -> SwapPlan:
        """Make the swap disk, or find the one of that size. Raises NoCapacity.

        What stood in its place before is gone for the guest's next start.
        """
        ...

    async def drop_swap(self, server_id: str) -> None:
        """Remove the swap disk of a guest whose definition has none. Raises Unavailable."""
        ...

    async def expect_swap(self, server_id: str, size_bytes: int, operation_key: str) -> None:
        """Make a swap disk anew for a guest that is expected. Raises NoCapacity.

        Raises Conflict: an emulator here may have one open.
        """
        ...
