"""The notes of an extend, which all of its parts share."""

from __future__ import annotations

from msgspec import Struct

from mooring.volume.backends import backends
from mooring.volume.extend import growing


class ExtendVolume(Struct, frozen=True, kw_only=True):
    """The notes. `old_gib` and `new_gib` are sizes in GiB; `backend` is where the volume lies."""

    volume_id: str
    old_gib: int
    new_gib: int
    backend: str
    attached: bool = False
    """Whether it was in-use before."""
    from_error: bool = False
    """Whether it was in `error` before, which it leaves only if its file is whole."""
    by_compute: bool = False
    """Whether storage said that only the guest's hypervisor can grow the file."""
    server_ids: list[str] = []
    """Whom the event is for."""
    overdue: bool = False
    """Whether compute did not answer in time."""
    file_bytes: int | None = None
    """In a bad end: how big the file was found; None when nobody could tell."""
    settled: bool = False
    """Whether row, reservation and file say the same again."""

    @property
    def host(self) -> str:
        """The host whose agent has the volume."""
        return backends.split(self.backend)[0]

    @property
    def new_bytes(self) -> int:
        """The size to reach, in bytes."""
        return self.new_gib * growing.GIB
