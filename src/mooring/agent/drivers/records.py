"""What a pool of files writes down of each volume, and how one gets another id."""

from __future__ import annotations

from pathlib import Path

import structlog
from msgspec import Struct
from msgspec.structs import replace

from mooring.agent import files, identities
from mooring.agent.drivers.chains import Chain, Layer
from mooring.agent.identities import RECORDS
from mooring.errors import Conflict

log = structlog.get_logger()
PREFIX = "volume-"


class Record(Struct, frozen=True):
    """What a volume is, and the hosts that it is exported to, by attachment.

    `chain` is there from its first snapshot on, and where its file has another name than its own;
    else the volume is one file of `format`. `thin_from` is the byte from which on a thick volume
    has still to get its space, None for none. `spare` are files that no chain has any more and that
    were still to be removed when this was written.
    """

    format: str
    exports: dict[str, str] = {}
    chain: Chain | None = None
    thin_from: int | None = None
    spare: tuple[str, ...] = ()

    def untaken_bytes(self, size_bytes: int) -> int:
        """Return how much space a volume of this size has still to get."""
        return 0 if self.thin_from is None else max(0, size_bytes - self.thin_from)

    def exported(self, attachment_id: str, host: str | None) -> Record:
        """Return the record with a volume exported to a host by an attachment; None: no more."""
        left = {key: value for key, value in self.exports.items() if key != attachment_id}
        return replace(self, exports=left if host is None else {**left, attachment_id: host})

    def standing_on(self, chain: Chain, spare: str) -> Record:
        """Return the record with another chain; `spare` is a file that is to go, "" for none."""
        left = {*self.spare, *([spare] if spare else [])} - set(chain.files)
        return replace(self, chain=chain, spare=tuple(sorted(left)))


class Records:
    """Where the files of a pool's volumes are. Not for two threads at a time."""

    def __init__(self, directory: Path, host: str) -> None:
        self.directory, self._host = directory, host

    def prepare(self) -> None:
        """Make the directories, and remove what unfinished calls of this host have left."""
        self.directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        (self.directory / RECORDS).mkdir(mode=0o700, exist_ok=True)
        for directory in (self.directory, self.directory / RECORDS):
            for left in files.partials(directory / f"{PREFIX}*", self._host):
                left.unlink(missing_ok=True)
        identities.prepare(self.directory / RECORDS, self._host)

    def data_path(self, volume_id: str) -> Path:
        """Return where a volume is made, or would be."""
        return self.directory / f"{PREFIX}{volume_id}"

    def path(self, volume_id: str) -> Path:
        """Return where a volume's record is, or would be."""
        return self.directory / RECORDS / f"{PREFIX}{volume_id}.json"

    def read(self, volume_id: str) -> Record | None:
        """Return what is written down of a volume, or None. Raises DamagedRecord."""
        return files.read_record(self.path(volume_id), Record, forced=True)

    def whole(self, volume_id: str) -> Record | None:
        """Return a volume's record, None when there is none or it is damaged. Raises OSError."""
        try:
            return self.read(volume_id)
        except files.DamagedRecord as error:
            log.debug("a volume's record is damaged", volume=volume_id, reason=str(error))
            return None

    def readable(self, volume_id: str) -> Record | None:
        """Return the same, None also when the storage does not give it."""
        try:
            return self.whole(volume_id)
        except OSError as error:
            log.debug("a volume's record is not read", volume=volume_id, reason=str(error))
            return None

    def ids(self) -> list[str]:
        """Return the volumes that have a record, be that damaged or not. Raises OSError."""
        names = [path.stem for path in files.records_in(self.directory / RECORDS)]
        return [name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX)]

    def keep(self, volume_id: str, record: Record) -> None:
        """Write a volume's record to disk, whole or not at all. Raises NoCapacity."""
        files.write_record(self.path(volume_id), record, forced=True, host=self._host)

    def clear(self, volume_id: str, record: Record) -> Record:
        """Remove a record's spare files, but for those of its chain; return it without them."""
        if not record.spare:
            return record
        needed = record.chain.files if record.chain else [self.data_path(volume_id).name]
        for name in set(record.spare) - set(needed):
            (self.directory / name).unlink(missing_ok=True)
        # One that came back with the power would be nobody's.
        files.sync_directory(self.directory)
        return replace(record, spare=())

    def plan(self, disk_format: str, becomes: str, pool: str) -> Record:
        """Return the record of a new volume whose file has the name of what it `becomes`.

        Raises Conflict where that is taken: a file without a record is what another call began of
        it, or a stranger's.
        """
        if not becomes:
            return Record(disk_format)
        if self.data_path(becomes).exists() or self.path(becomes).exists():
            raise Conflict(
                f"Pool {pool} has something of volume {becomes} already. Nothing was made; see "
                "what it is, and remove it, before the volume comes here."
            )
        return Record(disk_format, chain=Chain((Layer(self.data_path(becomes).name, disk_format),)))

    def new_id_of(self, volume_id: str, record: Record) -> str:
        """Return the id that a volume was made to get, and has not got yet; "" for none."""
        names = record.chain.files if record.chain else []
        # The lowest file of every other volume has its own name, with or without a suffix.
        if len(names) != 1 or names[0].startswith(self.data_path(volume_id).name):
            return ""
        return names[0].removeprefix(PREFIX)

    def rename(self, volume_id: str, new_id: str) -> None:
        """Give a volume another id; nothing when there is none. It may be repeated.

        Raises Conflict for one with snapshots, whose files name each other.
        """
        record = self.read(volume_id)
        if record is None:
            return
        if record.chain is not None:
            record.chain.require_alone(volume_id)
        # Behind a snapshot that went its file may have that one's name, and format.
        own = record.chain.active if record.chain else self.plain_layer(volume_id, record)
        path, new = self.directory / own.file, self.data_path(new_id)
        known = replace(record, format=own.format, chain=None)
        if path == new:
            # Its file has the name already, and somebody may have that open.
            self.keep(new_id, known)
        elif path.exists():
            # Its data come last, as when it is made.
            self.keep(new_id, known)
            path.replace(new)
            files.sync_directory(self.directory)
        self.path(volume_id).unlink(missing_ok=True)

    def plain_layer(self, volume_id: str, record: Record) -> Layer:
        """Return the one file of a volume whose record names none."""
        return Layer(self.data_path(volume_id).name, record.format)
