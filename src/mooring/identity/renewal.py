"""New keys of tokens, in every process of the cloud, and the end of every token there is.

The database has the keys, sealed; each process has them in a file of its own, and sees within
`IDENTITY_CACHE_S` that the database has others. Until then one that still makes tokens with former
keys makes such as others refuse: their owners log in again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from sqlalchemy import select, update

from mooring import limits
from mooring.errors import Unavailable
from mooring.identity.keys import TOKEN_KEYS, new_keys, rotated
from mooring.identity.tables import SecretRow, UserRow

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.identity.service import Identity

log = structlog.get_logger()


async def end_all(identity: Identity) -> None:
    """End every token: with the count of each user, at once and everywhere, and with new keys.

    The count alone would leave the keys to whoever has read them. Raises Unavailable when this
    process cannot take the new ones; the tokens have ended all the same.
    """
    keys = new_keys()

    def act(tx: Session) -> None:
        tx.execute(update(UserRow).values(token_generation=UserRow.token_generation + 1))
        _keep(tx, identity, keys)

    await identity.change(act)
    log.warning("all tokens were ended")
    _take(identity, keys)


async def rotate(identity: Identity) -> None:
    """Make tokens with the next key from now on; those of before stand until their time ends.

    Raises Unavailable when this process cannot take the new keys; the others do.
    """

    def act(tx: Session) -> bytes:
        row = _find(tx)
        known = identity.sealer.open(row.sealed) if row is not None else identity.keys.content()
        keys = rotated(known)
        _keep(tx, identity, keys)
        return keys

    keys = await identity.change(act)
    log.info("the keys of tokens were rotated")
    _take(identity, keys)


async def keep_following(identity: Identity) -> None:
    """Take the database's keys again and again, until cancelled."""
    while True:
        await identity.clock.sleep(limits.IDENTITY_CACHE_S)
        await follow(identity)


async def follow(identity: Identity) -> None:
    """Take the keys that the database has, when another process has changed them there.

    Raises Unavailable when they cannot be written: those of before are taken as long.
    """
    row = await identity.store.read(_find)
    if row is None or row.sealed == identity.keys.sealed:
        return
    keys = identity.sealer.open(row.sealed)
    if keys != identity.keys.content():
        _take(identity, keys)
        log.info("the keys of tokens are others by now")
    identity.keys.sealed = row.sealed


def _take(identity: Identity, keys: bytes) -> None:
    """Go on with keys that the database has. Raises Unavailable."""
    try:
        identity.keys.replace(keys)
    except Unavailable as error:
        raise Unavailable(
            "The cloud has new keys of tokens, and a process of it goes on with those of before: "
            f"{error.public} Make room there: the process tries again by itself."
        ) from error


def _find(tx: Session) -> SecretRow | None:
    # The one row that belongs to the cloud itself, and to nobody who asks.
    return tx.scalars(select(SecretRow).where(SecretRow.name == TOKEN_KEYS)).one_or_none()


def _keep(tx: Session, identity: Identity, keys: bytes) -> None:
    row = _find(tx)
    if row is None:
        tx.add(SecretRow(name=TOKEN_KEYS, sealed=identity.sealer.seal(keys)))
    else:
        row.sealed = identity.sealer.seal(keys)
    tx.flush()
