"""Connections that volumes share: the last one to leave ends them, and takes nobody else's.

Of a session to a backend (simulated), and of a share that is mounted (NFS): the same holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Protocol

import pytest

from mooring.agent.connections import Connections
from mooring.agent.fitting import Fitting
from mooring.agent.qemu_img import QemuImg
from mooring.agent.run import Runner
from mooring.agent.simulated_pool import open_pool
from mooring.agent.targets import backend_of
from mooring.agent_api.disks import read_connection
from mooring.errors import Conflict, Invalid
from mooring.fence.journal import Journal
from tests.agent.shares import EXPORT, Shares

pytestmark = pytest.mark.anyio
SERVICE = "6f0d4f2e-7a0c-5b57-9a31-2b7f0c0d9c11"
OTHER = "7f0d4f2e-7a0c-5b57-9a31-2b7f0c0d9c12"


class Kind(Protocol):
    """A kind of connection that is shared: how to ask for one, and what there is of it."""

    connections: Connections

    def info(self, number: int) -> dict[str, Any]: ...

    async def there(self) -> int:
        """Return how many connections the host has to the storage."""
        ...


class Sessions:
    """One session for all volumes of a simulated pool."""

    def __init__(self, connections: Connections, directory: Path) -> None:
        self.connections, self._pool = connections, directory / "pool"
        open_pool(self._pool).close()

    def info(self, number: int, service: str = SERVICE) -> dict[str, Any]:
        path = f"simulated:{self._pool}/volume-v{number}"
        data = {"device_path": path, "shared_targets": True, "service_uuid": service}
        return {"driver_volume_type": "simulated", "data": data}

    async def there(self) -> int:
        return len(self.connections.targets.sessions())


class Mounted:
    """One mount for all volumes of an NFS share."""

    def __init__(self, connections: Connections, table: Path) -> None:
        self.connections, self._table = connections, table

    def info(self, number: int) -> dict[str, Any]:
        data = {"export": EXPORT, "name": f"volume-v{number}", "format": "raw"}
        return {"driver_volume_type": "nfs", "data": data}

    async def there(self) -> int:
        return len(self._table.read_text().splitlines())


@pytest.fixture(params=["session", "mount"])
async def kind(
    request: pytest.FixtureRequest, tmp_path: Path, journal: Journal
) -> AsyncGenerator[Kind]:
    shares = Shares(tmp_path / "nfs")
    for number in (1, 2):
        (shares.export() / f"volume-v{number}").write_bytes(b"data")
    mounts = shares.mounts(journal)
    connections = Connections(
        tmp_path / "connections", mounts, Fitting(QemuImg(Runner(journal))), simulated=True
    )
    connections.prepare()
    if request.param == "session":
        yield Sessions(connections, tmp_path)
    else:
        yield Mounted(connections, shares.directory / "table")
    await mounts.close()


async def test_volumes_of_one_backend_share_a_connection(kind: Kind) -> None:
    for number in (1, 2):
        await kind.connections.connect(f"a{number}", f"v{number}", kind.info(number))
    assert await kind.there() == 1


async def test_one_that_leaves_does_not_take_another_s_connection(kind: Kind) -> None:
    for number in (1, 2):
        await kind.connections.connect(f"a{number}", f"v{number}", kind.info(number))
    await kind.connections.disconnect("a1")
    assert await kind.there() == 1
    for _ in range(2):
        await kind.connections.disconnect("a2")
    assert await kind.there() == 0


async def test_one_that_comes_as_the_last_one_leaves_has_a_connection(kind: Kind) -> None:
    await kind.connections.connect("a1", "v1", kind.info(1))
    for round_ in range(5):
        comes, goes = ("a2", 2), "a1"
        if round_ % 2:
            comes, goes = ("a1", 1), "a2"
        await asyncio.gather(
            kind.connections.disconnect(goes),
            kind.connections.connect(comes[0], f"v{comes[1]}", kind.info(comes[1])),
        )
        assert await kind.there() == 1


@pytest.fixture
def sessions(tmp_path: Path, journal: Journal) -> Sessions:
    mounts = Shares(tmp_path / "nfs").mounts(journal)
    fitting = Fitting(QemuImg(Runner(journal)))
    made = Connections(tmp_path / "connections", mounts, fitting, simulated=True)
    made.prepare()
    return Sessions(made, tmp_path)


async def test_who_comes_waits_while_the_last_one_logs_out(sessions: Sessions) -> None:
    connections, knobs = sessions.connections, sessions.connections.targets.knobs
    await connections.connect("a1", "v1", sessions.info(1))
    knobs.hold("log_out")
    leaving = asyncio.create_task(connections.disconnect("a1"))
    await knobs.held("log_out")
    coming = asyncio.create_task(connections.connect("a2", "v2", sessions.info(2)))
    await connections.connect("a3", "v3", sessions.info(3, OTHER))
    assert not coming.done(), "the lock is of one backend"
    knobs.release("log_out")
    await asyncio.gather(leaving, coming)
    assert connections.targets.sessions() == [SERVICE, OTHER]


async def test_who_fails_to_connect_leaves_no_session_and_takes_nobody_s(
    sessions: Sessions,
) -> None:
    connections = sessions.connections
    bad = sessions.info(2)
    del bad["data"]["device_path"]
    with pytest.raises(Invalid):
        await connections.connect("a2", "v2", bad)
    assert await sessions.there() == 0
    await connections.connect("a1", "v1", sessions.info(1))
    with pytest.raises(Invalid):
        await connections.connect("a2", "v2", bad)
    assert await sessions.there() == 1


async def test_a_session_that_stays_goes_with_the_next_start(sessions: Sessions) -> None:
    connections = sessions.connections
    await connections.connect("a1", "v1", sessions.info(1))
    connections.targets.knobs.fail("log_out", Conflict("It is busy."))
    await connections.disconnect("a1")
    assert await sessions.there() == 1
    await connections.targets.release_unused()
    assert await sessions.there() == 0


@pytest.mark.parametrize(
    ("shared", "service", "backend"),
    [(True, SERVICE, SERVICE), (None, SERVICE, SERVICE), (False, SERVICE, ""), (True, None, "")],
)
def test_what_nobody_knows_is_locked_and_what_is_not_shared_is_not(
    shared: bool | None, service: str | None, backend: str
) -> None:
    data = {"shared_targets": shared, "service_uuid": service}
    assert backend_of(read_connection({"driver_volume_type": "any", "data": data})) == backend


def test_a_service_that_is_no_id_is_refused() -> None:
    data = {"shared_targets": True, "service_uuid": "../x"}
    with pytest.raises(Invalid):
        backend_of(read_connection({"driver_volume_type": "any", "data": data}))
