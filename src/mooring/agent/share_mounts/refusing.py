"""What stands for a protocol that this host cannot mount, and says why."""

from __future__ import annotations

from pathlib import Path

from mooring.agent.share_mounts.base import Wanted, not_here


class Refusing:
    """Implements `ShareMounter`."""

    def __init__(self, base: Path, why: str) -> None:
        self._base, self._why = base, why

    @property
    def base(self) -> Path:
        return self._base

    async def prepare(self) -> None:
        return

    async def mount(self, wanted: Wanted, operation_key: str) -> None:
        del operation_key
        raise not_here(wanted.export, self._why)

    async def unmount(self, path: Path) -> None:
        del path

    async def mounted(self) -> frozenset[Path]:
        return frozenset()

    async def check(self, path: Path) -> None:
        del path
