"""A table for tests, and what they do to it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from mooring.store.base import Json, Store, service_base

Base = service_base("test")


class Boat(Base):
    __tablename__ = "boats"

    name: Mapped[str] = mapped_column(primary_key=True)
    trips: Mapped[int] = mapped_column(default=0)
    seen_at: Mapped[datetime | None]
    log: Mapped[Any] = mapped_column(Json, nullable=True)


class Sailor(Base):
    __tablename__ = "sailors"

    id: Mapped[int] = mapped_column(primary_key=True)
    boat: Mapped[str] = mapped_column(ForeignKey("boats.name"))
    rank: Mapped[str | None] = mapped_column("title")
    hired_at: Mapped[datetime | None]


def build(tx: Session) -> None:
    """Make the tables and one boat."""
    Base.metadata.create_all(tx.connection())
    tx.add(Boat(name="ark"))


def add(name: str) -> Callable[[Session], None]:
    return lambda tx: tx.add(Boat(name=name))


def sail(tx: Session) -> int:
    """Read, then write: what a driver's implicit BEGIN gets wrong. Returns the trips."""
    boat = tx.scalars(select(Boat).where(Boat.name == "ark").with_for_update()).one()
    boat.trips += 1
    return boat.trips


async def names(store: Store) -> list[str]:
    return await store.read(lambda tx: list(tx.scalars(select(Boat.name).order_by(Boat.name))))


async def trips(store: Store) -> int:
    return await store.read(lambda tx: tx.scalars(select(Boat.trips)).one())
