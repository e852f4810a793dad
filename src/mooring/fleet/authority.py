"""The authorities of a cloud: each made once, kept sealed in the database, for all processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from mooring import certificates
from mooring.certificates import Held
from mooring.fleet.tables import AuthorityRow

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.clock import Clock
    from mooring.saga.seal import Sealer
    from mooring.store.base import Store

_TITLES = {"hosts": certificates.HOSTS, "moves": certificates.MOVES}
Name = Literal["hosts", "moves"]


async def ensure(store: Store, sealer: Sealer, clock: Clock, name: Name = "hosts") -> Held:
    """Return an authority, made when there is none. Raises Bug when another key sealed it.

    That for `hosts` certifies those who are asked and those who ask, that for `moves` what hosts
    show each other while guests go between them.
    """
    found = await store.read(lambda tx: _find(tx, name)) or await _make(store, sealer, clock, name)
    certificate = found.certificate.encode("ascii")
    return Held(certificate, sealer.open(found.sealed_key), certificate)


class _Kept(Struct, frozen=True):
    """What lies in the database."""

    certificate: str
    sealed_key: bytes


async def _make(store: Store, sealer: Sealer, clock: Clock, name: Name) -> _Kept:
    made = certificates.make_authority(clock.now(), _TITLES[name])
    kept = _Kept(made.certificate.decode("ascii"), sealer.seal(made.key))

    def add(tx: Session) -> _Kept:
        if (found := _find(tx, name)) is None:
            row = AuthorityRow(name=name, created_at=clock.now())
            row.certificate, row.sealed_key = kept.certificate, kept.sealed_key
            tx.add(row)
            tx.flush()
        return found or kept

    try:
        return await store.write(add)
    except IntegrityError:
        # Another process was faster: its authority is everybody's.
        return await store.write(add)


def _find(tx: Session, name: Name) -> _Kept | None:
    query = select(AuthorityRow.certificate, AuthorityRow.sealed_key)
    row = tx.execute(query.where(AuthorityRow.name == name)).one_or_none()
    return None if row is None else _Kept(row.certificate, row.sealed_key)
