"""What all processes of one cloud have in common beside its tables: passwords and keys of tokens.

They lie in identity's database, sealed with the one file that an operator has to give to every
process, `seal.key`. Each process lays them down in its state directory, where commands and people
look for them: the database's word counts, and a file that is missing is written anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from sqlalchemy import select

from mooring.errors import Bug, Invalid
from mooring.identity.tables import SecretRow
from mooring.secret_file import write_secret

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.saga.seal import Sealer
    from mooring.store.base import Store

log = structlog.get_logger()
SEAL_KEY = "seal.key"


def has_cloud(state: Path, databases: Sequence[str]) -> bool:
    """Whether a state directory has a cloud: its key, or one of these databases. Makes nothing.

    A start that was killed early left the key alone; one that lost its key has the databases.
    """
    return any((state / name).exists() for name in (SEAL_KEY, *map("{}.sqlite".format, databases)))


def no_cloud(state: Path) -> Invalid:
    """Return the error of a command that found no cloud where there should be one."""
    return Invalid(
        f"There is no cloud in {state}. Nothing was changed; name another directory with "
        "--state-dir, or make a cloud there with `mooring up`."
    )


async def agree(
    store: Store, sealer: Sealer, file: Path, complete: Callable[[bytes | None], bytes]
) -> bytes:
    """Return a secret that all processes have, and lay it down in a file of its name.

    `complete` returns what it shall be: from what the database has, or None before the first
    process has kept it. It may be called again, with another's word. Raises Invalid when the
    database was sealed with another key.
    """

    def settle(tx: Session) -> bytes:
        # No secret belongs to anybody who asks: this is the process's own start.
        row = tx.get(SecretRow, file.name)
        known = _open(sealer, row.sealed, file) if row is not None else None
        wanted = complete(known)
        if row is None:
            tx.add(SecretRow(name=file.name, sealed=sealer.seal(wanted)))
        elif wanted != known:
            row.sealed = sealer.seal(wanted)
        tx.flush()
        return wanted

    is_first = not await store.read(lambda tx: is_kept(tx, file.name))
    content = await store.write(settle)
    await asyncio.to_thread(_lay_down, file, content, is_first=is_first)
    return content


def is_kept(tx: Session, name: str) -> bool:
    """Whether the database has a secret."""
    return tx.scalar(select(SecretRow.name).where(SecretRow.name == name)) is not None


def _lay_down(file: Path, content: bytes, *, is_first: bool) -> None:
    present = file.read_bytes() if file.exists() else None
    if present == content:
        return
    if present is not None:
        log.warning("a file is another than the database's and is replaced", file=str(file))
    elif not is_first:
        log.warning("a file was missing and is written from the database", file=str(file))
    write_secret(file, content)


def _open(sealer: Sealer, sealed: bytes, file: Path) -> bytes:
    try:
        return sealer.open(sealed)
    except Bug as error:
        raise Invalid(
            f"{file.parent / SEAL_KEY} is another key than the one that this cloud's database was "
            "sealed with. Put the cloud's own in its place: all processes of a cloud have the same "
            "one, and a backup has it, too (docs/backup.md)."
        ) from error
