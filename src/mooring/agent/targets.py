"""Connections to storage that several volumes of a backend share (facts/block_storage.md 2.8).

Where the first of them logs in and the last one logs out, who looks whether it is the last must not
meet who comes: a lock for each backend, known by its `service_uuid`, is held over the whole of both
(facts/compute.md 4.3). What a share needs has a guard of its own, in `mounts.py`: the mount.

Only simulated hosts take such connections yet. A session of theirs is a file.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import structlog

from mooring.agent.knobs import Knobs
from mooring.agent_api.disks import Connection
from mooring.errors import Invalid, MooringError

log = structlog.get_logger()
_SERVICE = re.compile(r"[0-9A-Za-z-]{1,64}")


def backend_of(connection: Connection) -> str:
    """Return the `service_uuid` of the backend whose volumes may share this; "" for none.

    As os-brick has it: what nobody knows (null) counts as shared, and what names no service has no
    lock. Raises Invalid for a service that is no id.
    """
    shared, service = (
        connection.data.get("shared_targets", False),
        connection.data.get("service_uuid"),
    )
    if shared is False or not service:
        return ""
    if not isinstance(service, str) or not _SERVICE.fullmatch(service):
        raise Invalid("The service_uuid of a connection is no id.")
    return service


class Targets:
    """The locks of one host, and of a simulated one the sessions.

    `knobs` points: log_in, log_out.
    """

    def __init__(self, directory: Path, in_use: Callable[[str], bool], *, simulated: bool) -> None:
        """Keep sessions in `directory`; `in_use` tells whether a backend's volume is connected."""
        self._directory, self._in_use, self._is_simulated = directory, in_use, simulated
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.knobs = Knobs()

    def sessions(self) -> list[str]:
        """Return the backends that this host is logged in at."""
        return sorted(path.name for path in self._directory.glob("*"))

    @asynccontextmanager
    async def joined(self, backend: str) -> AsyncGenerator[None]:
        """Hold a backend's lock, logged in, while the body notes its user; "" holds none."""
        if not backend:
            yield
            return
        async with self._turns[backend]:
            await self._log_in(backend)
            try:
                yield
            finally:
                await self._leave(backend)

    @asynccontextmanager
    async def left(self, backend: str) -> AsyncGenerator[None]:
        """Hold a backend's lock while the body forgets its user, and log out behind the last."""
        if not backend:
            yield
            return
        async with self._turns[backend]:
            yield
            await self._leave(backend)

    async def release_unused(self) -> None:
        """Log out where an agent before this one has not come to it."""
        for backend in self.sessions():
            async with self.left(backend):
                pass

    async def _log_in(self, backend: str) -> None:
        if self._is_simulated:
            await self.knobs.at("log_in")
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._directory / backend).touch()

    async def _leave(self, backend: str) -> None:
        """Log out unless somebody uses it. A session that stays is untidy, not wrong."""
        if self._in_use(backend) or not self._is_simulated:
            return
        try:
            await self.knobs.at("log_out")
        except MooringError as error:
            log.warning("a session stays", backend=backend, reason=str(error))
            return
        (self._directory / backend).unlink(missing_ok=True)
