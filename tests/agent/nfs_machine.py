"""A machine that the driver nfs asks, without a file system or a Ganesha: what it was asked."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

from mooring.agent.run import Budget, Output
from mooring.agent.settings import SharePoolSettings
from mooring.agent.share_drivers.nfs import NfsShares
from mooring.agent.share_drivers.options import NfsShareOptions
from mooring.agent.share_drivers.records import KeptRule, Record, Records
from tests.agent.places import place

_SILENT = Output(1, "", "Error org.freedesktop.DBus.Error.NoReply: no reply within 20000 ms")
OPTIONS = NfsShareOptions(address="10.9.0.254", bus="unix:path=/nowhere/bus")
RULE = KeptRule("ip", "10.9.0.1/32", "rw")


class Machine:
    """Answers as programs do, and notes what was asked.

    While `answers` is not set Ganesha keeps its callers waiting; while `is_silent` nobody answers
    for it. Shares among `damaged` cannot be mounted.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.answers = asyncio.Event()
        self.answers.set()
        self.holds = asyncio.Event()
        """While it is not set, Ganesha does not come to the end of taking in an export."""
        self.holds.set()
        self.is_silent = False
        self.without_loops = False
        self.damaged: set[str] = set()
        self.refused: set[str] = set()
        """Shares that Ganesha does not take in."""
        self.asked: list[str] = []
        self.times: list[tuple[str, float]] = []
        """The program of each, and the seconds that it was given."""
        self.mounted: set[str] = set()
        self.snapshots: dict[str, str] = {}
        """What btrfs lists of a share."""
        self.given: dict[str, str] = {}
        """What Ganesha has taken in of a share, as its file said."""

    def open(self) -> NfsShares:
        """Return a driver of it, not yet set up."""
        pool = SharePoolSettings(driver="nfs", nfs=OPTIONS)
        return NfsShares(pool, OPTIONS, place(self.directory), self)

    def lay(self, share_id: str, number: int, *, gib: int = 1) -> None:
        """Have a share here as an agent before has left it, with one client."""
        images, exports = self.directory / "images", self.directory / "exports"
        for path in (images, exports, self.directory / ".mooring"):
            path.mkdir(parents=True, exist_ok=True)
        with (images / f"share-{share_id}").open("wb") as file:
            file.truncate(gib * 1024**3)
        self.records.keep(share_id, Record(gib, {"r1": RULE}, number))
        text = f"EXPORT {{\n    Export_Id = {number};\n}}\n"
        (exports / f"share-{share_id}.conf").write_text(text, "utf-8")

    @property
    def records(self) -> Records:
        """What is written down of its shares."""
        return Records(self.directory / ".mooring")

    def record(self, share_id: str) -> Path:
        """Return the file of a record."""
        return self.directory / ".mooring" / f"share-{share_id}.json"

    async def run(
        self, argv: Sequence[str], budget: Budget | None = None, *, operation_key: str = ""
    ) -> Output:
        """Answer a program."""
        del operation_key
        words, last = " ".join(argv), argv[-1]
        self.asked.append(words)
        self.times.append((argv[0], (budget or Budget()).timeout_s))
        if argv[0] == "dbus-send":
            return await self._ganesha(words)
        share_id = Path(last).name
        if argv[0] == "findmnt":
            return Output(0, "/dev/loop0\n", "") if share_id in self.mounted else Output(1, "", "")
        if argv[0] == "mount":
            if self.without_loops:
                return Output(2, "", "failed to setup loop device")
            if share_id in self.damaged:
                return Output(32, "", "wrong fs type, bad superblock")
            self.mounted.add(share_id)
        if argv[0] == "btrfs":
            return Output(0, self.snapshots.get(share_id, ""), "")
        if argv[0] == "umount":
            self.mounted.discard(share_id)
        return Output(0, "", "")

    async def _ganesha(self, words: str) -> Output:
        await self.answers.wait()
        if self.is_silent:
            return _SILENT
        if "UpdateExport" in words:
            [file] = re.findall(r"string:(/\S+)", words)
            share_id = Path(file).stem.removeprefix("share-")
            if share_id in self.refused:
                return Output(1, "", "Error org.freedesktop.DBus.Error.InvalidFileContent")
            said = await asyncio.to_thread(Path(file).read_text, "utf-8")
            await self.holds.wait()
            self.given[share_id] = said
            return Output(0, "1 exports updated", "")
        return Output(0, "", "")
