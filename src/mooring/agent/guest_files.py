"""The files of a guest's own: its root disk, and what its serial console said."""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path

import structlog

from mooring import qcow2
from mooring.agent import files
from mooring.agent.hypervisor import RootPlan, tail
from mooring.agent.limits import AGENT_CONSOLE_BYTES
from mooring.agent.local_disks import check_growth, no_copy
from mooring.agent.qemu_img import FORMATS, QemuImg
from mooring.agent_api.images import CachedImage
from mooring.errors import Invalid, MooringError
from mooring.fence.threads import run_to_end

log = structlog.get_logger()
ROOT_FORMAT = "qcow2"
ROOT, BASE = f"root.{ROOT_FORMAT}", "base"
RESCUE, RESCUE_BASE = f"rescue.{ROOT_FORMAT}", "rescue-base"


class GuestFiles:
    """Below `<state_dir>/guests/<server id>`: root.qcow2 over base, console.log, console.old.

    Of a guest in rescue also rescue.qcow2 over rescue-base.
    A root disk that stands alone has no base.
    """

    def __init__(self, directory: Path, qemu_img: QemuImg) -> None:
        self._directory, self._qemu_img = directory, qemu_img

    def prepare(self) -> None:
        """Make the directory, and remove what unfinished calls have left."""
        self._directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        for left in self._directory.glob(f"*/*{files.PARTIAL}"):
            left.unlink(missing_ok=True)

    @property
    def directory(self) -> Path:
        """Where all guests' files are."""
        return self._directory

    def console_path(self, server_id: str) -> Path:
        """Return the file that takes a guest's serial console."""
        return self._directory / server_id / "console.log"

    def root_path(self, server_id: str) -> Path:
        """Return the file of a guest's root disk."""
        return self._directory / server_id / ROOT

    async def make_root(
        self, server_id: str, image: CachedImage, source: Path, size_bytes: int, operation_key: str
    ) -> RootPlan:
        """Make the root disk as a layer over the image, or find the one that is there."""
        own = self._directory / server_id
        path = own / ROOT
        plan = RootPlan(
            path=path, format=ROOT_FORMAT, image_id=image.image_id, size_bytes=size_bytes
        )
        if await run_to_end(path.exists):
            return plan
        await run_to_end(lambda: _link_base(own / BASE, source))
        await self._layer(path, BASE, image.disk_format, size_bytes, operation_key)
        return plan

    async def make_rescue(
        self, server_id: str, image: CachedImage, source: Path, operation_key: str
    ) -> Path:
        """Make a disk as a layer over the image, and nothing that stood in its place before.

        Raises NoCapacity.
        """
        own = self._directory / server_id
        path = own / RESCUE
        await run_to_end(lambda: self.drop_rescue(server_id))
        await run_to_end(lambda: _link_base(own / RESCUE_BASE, source))
        size_bytes = image.virtual_bytes
        try:
            await self._layer(path, RESCUE_BASE, image.disk_format, size_bytes, operation_key)
        except MooringError:
            await run_to_end(lambda: self.drop_rescue(server_id))
            raise
        return path

    def drop_rescue(self, server_id: str) -> None:
        """Remove what a guest was rescued with; nothing when there is none. Raises Unavailable."""
        own = self._directory / server_id
        with files.removal_told(own):
            for left in (own / RESCUE, own / RESCUE_BASE, *files.partials(own / RESCUE)):
                left.unlink(missing_ok=True)

    async def _layer(
        self, path: Path, base: str, base_format: str, size_bytes: int, operation_key: str
    ) -> None:
        """Make an empty layer over the file of that name beside it."""
        written = files.partial(path, operation_key)
        try:
            await self._qemu_img.create(
                written,
                ROOT_FORMAT,
                size_bytes,
                backing=(base, base_format),
                operation_key=operation_key,
            )
            await run_to_end(lambda: files.finish(written, path))
        finally:
            await run_to_end(lambda: written.unlink(missing_ok=True))

    async def fill_root(
        self, server_id: str, image: CachedImage, source: Path, size_bytes: int, operation_key: str
    ) -> RootPlan:
        """Make the root disk with a copy of what the image has, or find the one that is there."""

        async def fill(written: Path) -> None:
            target = (written, ROOT_FORMAT)
            copied = (source, image.disk_format)
            await self._qemu_img.convert(copied, target, operation_key=operation_key)
            await self._qemu_img.resize(*target, size_bytes, operation_key=operation_key)

        path = self.root_path(server_id)
        if not await run_to_end(path.exists):
            await self._write_alone(path, fill, operation_key)
        return RootPlan(
            path=path, format=ROOT_FORMAT, image_id=image.image_id, size_bytes=size_bytes
        )

    async def make_root_anew(
        self,
        server_id: str,
        image: CachedImage | None,
        source: Path | None,
        size_bytes: int,
        operation_key: str,
    ) -> None:
        """Make the root disk, and nothing that stood in its place before.

        Without an image it stands alone, and is empty.
        """
        path = self.root_path(server_id)
        await run_to_end(lambda: path.unlink(missing_ok=True))
        if image is not None and source is not None:
            await self.make_root(server_id, image, source, size_bytes, operation_key)
            return

        async def make(written: Path) -> None:
            await self._qemu_img.create(
                written, ROOT_FORMAT, size_bytes, operation_key=operation_key
            )

        await self._write_alone(path, make, operation_key)

    async def _write_alone(
        self, path: Path, write: Callable[[Path], Awaitable[None]], operation_key: str
    ) -> None:
        """Have a root disk written that lies over nothing, and give it its name."""
        await run_to_end(lambda: _clear(path.parent))
        written = files.partial(path, operation_key)
        try:
            await write(written)
            await run_to_end(lambda: files.finish(written, path))
        finally:
            await run_to_end(lambda: written.unlink(missing_ok=True))

    async def take_in(self, brought: Sequence[Path]) -> None:
        """Make files of another host's guest this one's, if QEMU opens no others for them.

        Raises Invalid for what names another file than the one beside it; Unavailable.
        """
        there = {coming.stem: coming for coming in brought}
        now = {name: one if one.exists() else one.with_suffix("") for name, one in there.items()}
        header = await run_to_end(lambda: qcow2.read_header(now[ROOT]))
        wanted = BASE if BASE in there else ""
        if header.backing != wanted or (wanted and header.backing_format not in FORMATS):
            raise Invalid(
                "The disk that came lies over another file than the one that came with it, and was "
                "not taken. See to the host that it came from."
            )
        if wanted:
            await self._qemu_img.check(now[BASE], header.backing_format)
        for coming in there.values():
            await run_to_end(lambda one=coming: files.take(one))

    async def find_root(
        self, server_id: str, image_id: str, size_bytes: int, operation_key: str
    ) -> RootPlan:
        """Return the root disk that is there, made as large as this; 0 leaves it so.

        Raises NotFound, NoCapacity, InUse; Invalid: it is larger.
        """
        path = self._directory / server_id / ROOT
        if not await run_to_end(path.exists):
            raise no_copy(server_id)
        has_bytes = (await run_to_end(lambda: qcow2.read_header(path))).virtual_bytes
        wanted = check_growth(server_id, has_bytes, size_bytes)
        if wanted > has_bytes:
            await self._qemu_img.resize(path, ROOT_FORMAT, wanted, operation_key=operation_key)
        return RootPlan(path=path, format=ROOT_FORMAT, image_id=image_id, size_bytes=wanted)

    def read_console(self, server_id: str, lines: int | None) -> str:
        """Return the end of what the console said."""
        current = self.console_path(server_id)
        text = _read_end(current)
        if len(text) < AGENT_CONSOLE_BYTES:
            text = (_read_end(_old(current)) + text)[-AGENT_CONSOLE_BYTES:]
        return tail(text.decode("utf-8", "replace"), lines)

    def trim_consoles(self) -> None:
        """Keep guests from filling the disk through their consoles.

        What goes wrong with one is logged: no host is unwell by what one guest says.
        """
        for current in self._directory.glob("*/console.log"):
            try:
                _trim(current)
            except FileNotFoundError:
                # Its guest was removed meanwhile.
                continue
            except OSError as error:
                log.warning("a console is not kept small", path=str(current), reason=str(error))

    def remove(self, server_id: str) -> None:
        """Remove all that is a guest's own. Raises Unavailable: some of it stays."""
        files.remove_tree(self._directory / server_id)

    def leftovers(self, there: Collection[str]) -> list[str]:
        """Return what lies here of no guest that is there."""
        return sorted(str(path) for path in self._directory.iterdir() if path.name not in there)


def _link_base(base: Path, source: Path) -> None:
    """Hold on to the image's data: it may leave the cache while the guest needs it."""
    _clear(base.parent)
    base.unlink(missing_ok=True)
    base.hardlink_to(source)


def stands_alone(root: Path) -> bool:
    """Whether a root disk lies over no image. Blocking; works while QEMU has it open."""
    return not qcow2.read_header(root).backing


def _clear(own: Path) -> None:
    """Make a guest's directory, and remove what unfinished calls have left there."""
    own.mkdir(mode=0o711, parents=True, exist_ok=True)
    for left in own.glob(f"*{files.PARTIAL}"):
        left.unlink(missing_ok=True)


def _trim(current: Path) -> None:
    """Keep the end of a console that is too long; on a full disk nothing but what comes."""
    if current.stat().st_size <= 2 * AGENT_CONSOLE_BYTES:
        return
    written = current.with_name(f"console{files.PARTIAL}")
    try:
        written.write_bytes(_read_end(current))
        written.replace(_old(current))
    except OSError as error:
        written.unlink(missing_ok=True)
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        log.warning("the end of a console is not kept: the disk is full", path=str(current))
    # QEMU appends, so it goes on at the new end.
    os.truncate(current, 0)


def _old(current: Path) -> Path:
    return current.with_name("console.old")


def _read_end(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - AGENT_CONSOLE_BYTES))
            return file.read()
    except FileNotFoundError:
        return b""
