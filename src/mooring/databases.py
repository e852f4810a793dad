"""`mooring db`: the databases of a cloud that does not run."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError

from mooring import state_dir
from mooring.errors import Unavailable
from mooring.installation import has_cloud, no_cloud
from mooring.services import databases_of
from mooring.store import migrate
from mooring.store.base import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from mooring.config import Settings


async def upgrade(settings: Settings, say: Callable[[str], None]) -> None:
    """Bring every service's database to this release.

    Raises Invalid where no cloud is, Conflict while one uses them.
    """
    names = _names(settings)
    with ExitStack() as stack:
        if not settings.database:
            stack.callback(state_dir.hold(settings.state_path).release)
        for name in names:
            store = await open_store(settings.database or str(settings.state_path), name)
            await store.close()
            say(f"{name}: this release's")


async def check(settings: Settings, say: Callable[[str], None]) -> int:
    """Say what each database needs; return 1 when one is not of this release.

    Raises Invalid where no cloud is, Unavailable where a database does not answer.
    """
    code = 0
    for name in _names(settings):
        location = settings.database or str(settings.state_path)
        try:
            needs = await asyncio.to_thread(_describe, location, name)
        except DBAPIError as error:
            why = " ".join(str(error.orig).split())
            raise Unavailable(
                f"The database of the service {name} cannot be read: {why}. Nothing was changed; "
                "see that it runs and may be read, and ask again."
            ) from error
        say(f"{name}: {needs or 'of this release'}")
        code = 1 if needs else code
    return code


def _names(settings: Settings) -> list[str]:
    """Return the names of a cloud's databases. Raises Invalid where it keeps none."""
    names = databases_of(has_fleet=bool(settings.hosts_listen))
    # On PostgreSQL nothing of this lies in the state directory.
    if not settings.database and not has_cloud(settings.state_path, names):
        raise no_cloud(settings.state_path)
    return names


def _describe(location: str, name: str) -> str:
    """Return what a database lacks; empty when it is of this release. Makes nothing."""
    if location.startswith("postgresql:"):
        from mooring.store.postgresql import create_schema_engine

        engine = create_schema_engine(location, name)
    else:
        path = Path(location) / f"{name}.sqlite"
        if not path.exists():
            return "not made yet; starting the cloud makes it"
        engine = create_engine(f"sqlite:///file:{path}?mode=ro&uri=true")
    with engine.connect() as connection:
        state = migrate.state(connection, name)
    engine.dispose()
    if state.is_newest:
        return ""
    return (
        f"at {', '.join(sorted(state.has)) or 'nothing'}; `mooring db upgrade` brings it up to date"
    )
