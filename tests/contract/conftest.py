"""One cloud for all contract tests, and its users; hosts with each kind of hypervisor."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mooring.agent.settings import HypervisorKind
from tests.agent.hosts import TestHost, open_host, operation, why_no_real_guests
from tests.agent.processes import agent_process
from tests.contract.clients import Cloud, Http, Shell


@pytest.fixture(scope="session")
def running_cloud(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cloud]:
    """A cloud that runs until the last contract test is over; nothing may be left behind in it."""
    directory = tmp_path_factory.mktemp("contract")
    cloud = Cloud(directory / "state", directory / "log")
    try:
        yield cloud
    finally:
        findings = cloud.http("admin").ask("GET", "/mooring/doctor").body
        code = cloud.stop()
    assert findings == {"findings": []}
    assert code == 0, (directory / "log").read_text()


@pytest.fixture(scope="session")
def demo(running_cloud: Cloud) -> Shell:
    """The stock command of a member of the project `demo`."""
    return running_cloud.shell("demo")


@pytest.fixture(scope="session")
def operator(running_cloud: Cloud) -> Shell:
    """The stock command of the administrator."""
    return running_cloud.shell("mooring")


@pytest.fixture(scope="session")
def member(running_cloud: Cloud) -> Http:
    """Requests of a member of the project `demo`."""
    return running_cloud.http("demo")


@pytest.fixture(scope="session")
def admin(running_cloud: Cloud) -> Http:
    """Requests of the administrator, in the project `admin`."""
    return running_cloud.http("admin")


@pytest.fixture(scope="session")
def guest(member: Http) -> str:
    """The id of an image to boot from."""
    return member.image("guest")


@pytest.fixture(scope="module")
def state_dirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One directory for each hypervisor: finding out about a host takes seconds, once."""
    return {kind: tmp_path_factory.mktemp(kind) for kind in ("simulated", "libvirt")}


@pytest.fixture(scope="module")
def inner_dirs(tmp_path_factory: pytest.TempPathFactory, libvirt_dir: Path) -> dict[str, Path]:
    """The same for agents in the process of the tests."""
    return {"simulated": tmp_path_factory.mktemp("simulated"), "libvirt": libvirt_dir}


@pytest.fixture(params=["simulated", pytest.param("libvirt", marks=pytest.mark.hosts)])
def kind(request: pytest.FixtureRequest) -> HypervisorKind:
    if request.param == "libvirt" and (reason := why_no_real_guests()):
        pytest.skip(reason)
    return request.param


@pytest.fixture
async def host(kind: HypervisorKind, state_dirs: dict[str, Path]) -> AsyncGenerator[TestHost]:
    async with open_either(kind, state_dirs[kind]) as found:
        yield found
        for guest in await found.client.list_servers():
            await found.remove(guest.server_id)
        for use in (await found.client.inventory()).share_mounts:
            await found.client.unmount_share(use.server_id, use.share_id, operation=operation())


@asynccontextmanager
async def open_either(kind: HypervisorKind, state_dir: Path) -> AsyncGenerator[TestHost]:
    """Start a host; one with libvirt is a process of its own.

    An agent opens libvirt once, and a process can do so about fifteen times.
    """
    if kind == "libvirt":
        async with agent_process(state_dir, kind) as agent:
            yield agent.host
    else:
        async with open_host(state_dir, kind) as (found, _):
            yield found
