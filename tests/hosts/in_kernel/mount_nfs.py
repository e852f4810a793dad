"""Runs in the test kernel: a host mounts shares of real NFS 4.2, and is refused what it may not.

Its argument is a directory for what the host keeps. It says what holds.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from pathlib import Path

from mooring.agent.mounts import mount_point
from mooring.agent.run import Runner
from mooring.agent.settings import GuestShareSettings, MountSettings
from mooring.agent.share_mounts.base import Wanted
from mooring.agent.share_mounts.exports import read_export
from mooring.agent.share_mounts.nfs import NfsMounts
from mooring.errors import Forbidden, MooringError, NotFound, Unavailable
from mooring.fence.journal import Journal

ADDRESS = "127.0.0.1"
TIMEOUT_S, HANGS_S = 120.0, 20.0


def say(words: str) -> None:
    """Tell the test."""
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def read_mount() -> set[str]:
    """Return the options of the one mount of a share."""
    lines = Path("/proc/mounts").read_text("utf-8").splitlines()
    [options] = [line.split()[3] for line in lines if line.startswith(f"{ADDRESS}:/papers ")]
    return set(options.split(","))


def write_and_read(wanted: Wanted) -> str:
    """Write to a share, and return what its server has then."""
    (wanted.path / "file").write_text("data", "utf-8")
    return Path("/run/served/share/papers/file").read_text("utf-8")


def want(mounter: NfsMounts, location: str) -> Wanted:
    """Return how an export is mounted."""
    path = mount_point(mounter.base, location)
    return Wanted(export=read_export("NFS", location), path=path, client=ADDRESS)


async def is_refused(mounter: NfsMounts, location: str, *kinds: type[MooringError]) -> None:
    """See that an export cannot be mounted, in time, and that nothing is left of it."""
    wanted = want(mounter, location)
    try:
        await mounter.mount(wanted, "op")
    except kinds as error:
        say(f"mounts: {location} is refused: {error.kind}")
    else:
        raise AssertionError(f"{location} was mounted")
    assert not wanted.path.exists()
    assert await mounter.mounted() == frozenset()


async def hangs(directory: Path, journal: Journal) -> None:
    """See that a server that takes connections and says nothing keeps nobody waiting for long."""
    with socket.create_server((ADDRESS, 0)) as silent:
        options = f"vers=4.2,port={silent.getsockname()[1]}"
        mounter = await open_mounter(directory, journal, options, HANGS_S)
        began = time.monotonic()
        await is_refused(mounter, f"{ADDRESS}:/papers", Unavailable)
        assert time.monotonic() - began < TIMEOUT_S
        say("mounts: a server that hangs is given up")


async def open_mounter(
    directory: Path, journal: Journal, options: str, timeout_s: float
) -> NfsMounts:
    """Return what mounts, with options."""
    shares = GuestShareSettings(nfs_mount_options=options)
    settings = MountSettings(timeout_s=timeout_s, shares=shares)
    mounter = NfsMounts(directory / "mounted", settings, Runner(journal, str(directory)))
    await mounter.prepare()
    return mounter


async def look(directory: Path) -> None:
    """Mount, write, unmount; be refused; be kept waiting."""
    journal = Journal(directory / "journal.sqlite")
    mounter = await open_mounter(directory, journal, "vers=4.2", TIMEOUT_S)
    wanted = want(mounter, f"{ADDRESS}:/papers")
    for _ in range(2):
        await mounter.mount(wanted, "op")
    await mounter.check(wanted.path)
    assert write_and_read(wanted) == "data"
    options = read_mount()
    assert {"nosuid", "nodev", "vers=4.2"} <= options, options
    say("mounts: a share of NFS 4.2 is mounted, and written to")
    for _ in range(2):
        await mounter.unmount(wanted.path)
    assert not wanted.path.exists()
    await is_refused(mounter, f"{ADDRESS}:/nothing", NotFound)
    await hangs(directory, journal)
    for words in (["-u", f"{ADDRESS}:/run/served/share"], ["-f"]):
        subprocess.run(["exportfs", *words], check=True)  # noqa: ASYNC221  (nothing else runs)
    await is_refused(mounter, f"{ADDRESS}:/papers", Forbidden, NotFound)
    say("mounts: who is not let in mounts nothing")
    await journal.close()


if __name__ == "__main__":
    asyncio.run(look(Path(sys.argv[1])))
