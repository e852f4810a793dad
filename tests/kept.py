"""Clouds that begin where another one stood: what many tests stand on is made once in a process.

Hosts remember paths below a cloud's directory, so all of them lie in one place, one at a time.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from copy import deepcopy
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
from sqlalchemy import make_url

from tests.beginnings import copy_database, new_name
from tests.cloud import SimulatedCloud
from tests.copies import copy_file

C = TypeVar("C", bound=SimulatedCloud)
T = TypeVar("T")
_APART_S = 1.0
"""What is begun in a test is younger than what was made for it."""


class _Kept(NamedTuple):
    """How a cloud stood: its files, its database on a server, its time, and what was made in it."""

    directory: Path
    database: str
    now: datetime
    made: Any


class Keeper:
    """Keeps clouds in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._live = directory, directory / "live"
        self._kept: dict[tuple[object, ...], _Kept] = {}
        self._open = ""
        """What was made in the cloud that is open; empty when none is."""

    @asynccontextmanager
    async def open(
        self,
        cloud_type: Callable[..., C],
        furnish: Callable[[C], Awaitable[T]],
        what: str,
        *,
        database: str = "",
        **how: Any,
    ) -> AsyncGenerator[tuple[C, T]]:
        """Give a cloud in which something was made, and what `furnish`, who made it, returned.

        It is made once under a name, `what`, in clouds of a type that are opened in the same way,
        and copied for all who come later: so it holds nothing of a cloud itself. `database` is as
        for a cloud; that database is made anew. What a test leaves lies there until the next one.
        Raises RuntimeError while another one is open, which is left alone.
        """
        self._occupy(what)
        try:
            cloud, made = await self._begin(cloud_type, furnish, what, database=database, **how)
            async with cloud:
                yield cloud, made
        finally:
            self._open = ""

    def _occupy(self, what: str) -> None:
        if self._open:
            raise RuntimeError(
                f"The cloud with {self._open} is open still, and one with {what} would take its "
                "directory. Leave the first one before, or give one of them a directory of its own."
            )
        self._open = what

    async def _begin(
        self,
        cloud_type: Callable[..., C],
        furnish: Callable[[C], Awaitable[T]],
        what: str,
        *,
        database: str,
        **how: Any,
    ) -> tuple[C, T]:
        """Return a cloud that stands where the kept one stood, not open yet, and what was made."""
        key = (what, cloud_type, bool(database), *sorted(how.items()))
        if key not in self._kept:
            cloud = cloud_type(self._clear(), database=database, **how)
            self._kept[key] = await self._keep(cloud, furnish)
        found = self._kept[key]
        shutil.copytree(found.directory, self._clear(), copy_function=copy_file, dirs_exist_ok=True)
        if database:
            copy_database(database, make_url(database).database or "", found.database)
        cloud = cloud_type(self._live, database=database, start=found.now, **how)
        return cloud, deepcopy(found.made)

    async def _keep(self, cloud: C, furnish: Callable[[C], Awaitable[Any]]) -> _Kept:
        async with cloud:
            made = await furnish(cloud)
            await cloud.settle()
            cloud.clock.advance(_APART_S)
        url, name = cloud.settings.database, ""
        if url:
            name = new_name()
            copy_database(url, name, make_url(url).database or "")
        kept = self._live.rename(self._directory / str(len(self._kept)))
        return _Kept(kept, name, cloud.clock.now(), made)

    def _clear(self) -> Path:
        shutil.rmtree(self._live, ignore_errors=True)
        self._live.mkdir()
        return self._live


def named_after(made: Callable[..., object] | None) -> str:
    """Return the name of a function that makes something, for a thing that is kept."""
    return f"{made.__module__}.{made.__qualname__}" if made is not None else ""


@pytest.fixture(scope="session")
def keeper(memory_path: Path, request: pytest.FixtureRequest) -> Generator[Keeper]:
    """Keeps clouds for the tests of a process; what the last of them left stays if any failed."""
    directory = memory_path / "kept"
    directory.mkdir()
    yield Keeper(directory)
    if not request.session.testsfailed:
        shutil.rmtree(directory)
