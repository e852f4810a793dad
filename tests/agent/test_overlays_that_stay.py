"""An overlay that cannot be taken back: whoever asked is told so, and asks again.

What QEMU does with files that change under it: tests/agent/test_real_overlays.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("libvirt", reason="libvirt's Python binding is not installed")

from mooring.agent.libvirt import inactive, overlays
from mooring.agent.libvirt.overlays import DomainOverlays, Stand
from mooring.agent.overlays import Layer
from mooring.errors import Unavailable

pytestmark = pytest.mark.anyio
STAND = Stand(
    device="vdb",
    layers=[Layer(Path("/pool/volume.new"), "qcow2"), Layer(Path("/pool/volume"), "raw")],
    live=True,
    indexes={"volume.new": 2, "volume": 1},
)


class Full:
    """A guest whose QEMU ends each commit at once: the storage has no room."""

    def __init__(self) -> None:
        self.commits = list[str]()

    def blockCommit(self, _: str, base: str, *__: Any) -> None:  # noqa: N802  (libvirt calls it so)
        """Begin one, which is over by the next look."""
        self.commits.append(base)


async def test_an_overlay_whose_commit_ends_before_its_time_is_not_committed_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def look(*_: Any) -> Stand:
        return STAND

    def hold(_: Any) -> None:
        """The guest runs, so that QEMU has its disks."""

    monkeypatch.setattr(overlays, "look", look)
    monkeypatch.setattr(inactive, "hold", hold)
    unused: Any = None
    domain, lock = Full(), asyncio.Lock()

    def lock_of(_: str) -> asyncio.Lock:
        return lock

    async def run(server_id: str, fn: Callable[[Any], Any]) -> Any:
        assert server_id == "s1"
        return fn(domain)

    made = DomainOverlays(lock_of, run, unused, unused)
    async with asyncio.timeout(10):
        with pytest.raises(Unavailable, match=r"out of room.*Ask again"):
            await made.take_back("s1", "v1", "volume.new", "op")
    assert domain.commits == ["vdb[1]"]
