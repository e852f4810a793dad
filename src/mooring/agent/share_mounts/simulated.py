"""Mounts of a simulated host: a table in a small file, of what simulated storage lets it mount.

Storage is asked as a server would be: who is let in by no rule mounts nothing.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from mooring.agent import files, simulated_share_pool
from mooring.agent.knobs import Knobs
from mooring.agent.share_mounts import local_shares
from mooring.agent.share_mounts.base import Wanted, no_answer, no_export, not_let_in
from mooring.errors import Forbidden, NotFound
from mooring.fence.threads import run_to_end

BASE = Path("/simulated/shares")
"""Below which simulated hosts mount, unless they are told otherwise: nothing is ever there."""


class _Table(Struct, frozen=True):
    mounts: dict[str, str] = {}
    """Exports by their mount points."""


class SimulatedMounts:
    """Implements `ShareMounter`. `knobs` points: mount_share, unmount_share.

    `silent` has the mount points of shares whose server answers no more.
    """

    def __init__(self, base: Path, file: Path) -> None:
        self._base, self._file = base, file
        self.knobs = Knobs()
        self.silent: set[Path] = set()

    @property
    def base(self) -> Path:
        return self._base

    async def prepare(self) -> None:
        return

    async def mount(self, wanted: Wanted, operation_key: str) -> None:
        del operation_key
        await self.knobs.at("mount_share")
        if wanted.path in await self.mounted():
            return
        await run_to_end(lambda: _ask_storage(wanted))
        self._write({**self._read(), str(wanted.path): wanted.export.text})

    async def unmount(self, path: Path) -> None:
        await self.knobs.at("unmount_share")
        self._write({one: export for one, export in self._read().items() if one != str(path)})
        self.silent.discard(path)

    async def mounted(self) -> frozenset[Path]:
        return frozenset(map(Path, self._read()))

    async def check(self, path: Path) -> None:
        if path in self.silent:
            raise no_answer(path)

    def start_anew(self) -> None:
        """Lose all mounts, as a machine does that starts anew."""
        self._write({})

    def _read(self) -> dict[str, str]:
        table = files.read_record(self._file, _Table)
        return {} if table is None else table.mounts

    def _write(self, mounts: dict[str, str]) -> None:
        files.write_record(self._file, _Table(mounts))


def _ask_storage(wanted: Wanted) -> None:
    """Raise Forbidden or NotFound unless storage of this machine lets the client in."""
    export = wanted.export
    if local_shares.let_in(export, wanted.client) is not None:
        return
    try:
        simulated_share_pool.mount(export.text, wanted.client, wanted.key)
    except NotFound as error:
        raise no_export(export, str(error)) from error
    except Forbidden as error:
        raise not_let_in(export, wanted.client, str(error)) from error
