"""`mooring up`, `serve` and `agent`: put together from settings, until a signal ends them."""

from __future__ import annotations

import asyncio
import gc
import os
import platform
import secrets
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from random import SystemRandom
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring import access, listener_tls, logs, sockets, state_dir
from mooring.agent_api.client import Agents
from mooring.clients.transport import Network
from mooring.clock import RealClock
from mooring.cloud import Cloud, Outside, open_cloud
from mooring.config import Settings
from mooring.errors import Invalid
from mooring.fleet import door as fleet_door
from mooring.http_bounds import allow_connections, most_joining
from mooring.http_server import listening
from mooring.probe import from_setting

if TYPE_CHECKING:
    import socket

    from mooring.agent.settings import AgentSettings
    from mooring.agent.storage_file import Storage
    from mooring.agent_api.hosts import Host


Say = Callable[[str], None]


def new_owner() -> str:
    """Return the name by which this process owns sagas: no other has it, also not its successor.

    Two containers may have one host name and one process id.
    """
    return f"{platform.node()[:32]}:{os.getpid()}:{secrets.token_hex(6)}"


async def run_up(settings: Settings, say: Say) -> None:
    """Serve everything on this machine: the control plane and its hosts.

    Says what it does, and `ready <url>` once every API answers and a host is up. Raises Invalid,
    Conflict or Unavailable, each with one line that tells what to do, when it cannot start.
    """
    async with AsyncExitStack() as stack:
        directory = state_dir.hold(settings.state_path)
        stack.callback(directory.release)
        listener = sockets.open_listener(settings.address, settings.port)
        stack.callback(listener.close)
        agents = Agents()
        known_agents(settings, agents)
        await open_hosts(settings, agents, stack, say)
        await _serve(_with_fence(settings), agents, listener, stack, say)


async def run_serve(settings: Settings, say: Say) -> None:
    """Serve the control plane alone. On PostgreSQL, as many may run as one likes.

    Of those without a public URL one only has a state directory: the catalogue names one of them.
    """
    async with AsyncExitStack() as stack:
        if not (settings.database and settings.public_url):
            stack.callback(state_dir.hold(settings.state_path).release)
        settings.state_path.mkdir(mode=0o700, parents=True, exist_ok=True)
        listener = sockets.open_listener(settings.address, settings.port)
        stack.callback(listener.close)
        agents = Agents()
        known_agents(settings, agents)
        await _serve(settings, agents, listener, stack, say)


def _with_fence(settings: Settings) -> Settings:
    """Return the settings with a fence for the hosts of a lab, unless there is one."""
    if settings.hosts == 1 or settings.fence_command:
        return settings
    from mooring.lab import fencing

    return replace(settings, fence_command=fencing.command(settings.state_path))


def host_names(settings: Settings) -> list[str]:
    """Return the names of this machine's hosts."""
    name = platform.node() or "localhost"
    if settings.hosts == 1:
        return [name]
    return [f"{name}-{number}" for number in range(1, settings.hosts + 1)]


async def open_hosts(settings: Settings, agents: Agents, stack: AsyncExitStack, say: Say) -> None:
    """Start this machine's hosts and make them known, until the stack is left.

    One runs in this process; several are processes of their own. Raises Invalid, Unavailable.
    """
    from mooring.agent.app import open_agent
    from mooring.agent.hypervisor_memory import knows
    from mooring.agent.storage_file import read_storage

    storage = read_storage(settings.storage)
    if (storage.pools or storage.share_pools) and settings.hosts > 1:
        raise Invalid(
            f"The setting storage names the pools of one host, and there are {settings.hosts}. "
            "Leave --hosts out."
        )
    if settings.hosts > 1:
        from mooring.lab.lab import open_lab

        await open_lab(settings, host_names(settings), agents, stack, say)
        return
    [name] = host_names(settings)
    wanted = _wanted(settings, name, storage)
    if "compute" in settings.roles and not knows(wanted):
        say(f"host {name}: finding out what this machine can run, once; up to half a minute")
    running = await stack.enter_async_context(open_agent(wanted))
    agents.in_process(name, running.app)
    host = await agents[name].host()
    say(f"host {name}: {_described(host, settings.roles, running.notice)}")


def _wanted(settings: Settings, name: str, storage: Storage) -> AgentSettings:
    """Return what the agent of this machine's one host is told."""
    from mooring.agent.settings import AgentSettings as Wanted

    hosts = settings.state_path / "hosts"
    return Wanted(
        name=name,
        state_dir=hosts / name,
        hypervisor=settings.hypervisor,
        roles=settings.roles,
        pools=storage.pools,
        share_pools=storage.share_pools,
        mounts=storage.mounts,
        move_address=settings.move_address,
        move_tls=settings.move_tls,
        emulator_user=settings.emulator_user,
        passages=(settings.state_path, hosts),
        copy_listen=settings.copy_listen,
        copy_mib_per_s=settings.copy_mib_per_s,
        image_reserve_mib=settings.image_reserve_mib,
    )


def _described(host: Host, roles: Sequence[str], notice: str) -> str:
    """Return what an operator is told of a host that has started."""
    if not host.hypervisor:
        return f"{' and '.join(roles)} alone"
    note = f" ({notice})" if notice else ""
    return f"{host.hypervisor}, {host.accelerator or 'no accelerator'}{note}"


def known_agents(settings: Settings, agents: Agents) -> None:
    """Make the hosts known whose agents are processes of their own."""
    for entry in settings.agents:
        name, _, path = entry.partition("=")
        agents.unix(name, path)


async def _serve(
    settings: Settings,
    agents: Agents,
    listener: socket.socket,
    stack: AsyncExitStack,
    say: Say,
) -> None:
    allow_connections()
    stack.push_async_callback(agents.close)
    shown, tls = listener_tls.seen(settings), listener_tls.context(settings)
    url = settings.public_url or sockets.public_url(listener, is_tls=tls is not None)
    door = _open_door(settings, stack)
    outside = Outside(
        settings=settings,
        public_url=url.rstrip("/"),
        agents=agents,
        clock=RealClock(),
        random=SystemRandom(),
        probe=from_setting(settings.kill_at),
        owner=new_owner(),
        network=Network(str(listener_tls.authority(settings) or "")),
        joins_at=_joins_at(settings, door),
    )
    cloud = await open_cloud(outside)
    stack.push_async_callback(cloud.close)
    known = await asyncio.to_thread(state_dir.seen, settings.state_path)
    joining = await _let_hosts_in(cloud, door, stack)
    async with listening(cloud.app, listener, context=tls, has_sockets=True) as served:
        await cloud.look_at_hosts()
        _tell_ready(settings, url, say)
        # What the start made stays for good: the collector need not look at it again and again.
        gc.collect()
        gc.freeze()
        there = state_dir.until_lost(settings.state_path, known, cloud.clock)
        fresh = listener_tls.keep_fresh(settings, tls, shown, cloud.clock, outside.network.trust)
        tasks = [asyncio.create_task(one) for one in (cloud.run(), there, fresh)]
        with logs.mistakes_logged():
            await _until_first([served, *joining], tasks)
        await cloud.stop()


def _tell_ready(settings: Settings, url: str, say: Say) -> None:
    """Say that all answers, and what to type in a second terminal."""
    clouds = settings.state_path / access.CLOUDS
    say(f"clients: export OS_CLIENT_CONFIG_FILE={clouds} OS_CLOUD=demo")
    say(f"ready {url}")


def _open_door(settings: Settings, stack: AsyncExitStack) -> socket.socket | None:
    """Open the socket where hosts join, if there shall be one. Raises as `open_listener` does."""
    if not settings.hosts_listen:
        return None
    address, _, port = settings.hosts_listen.rpartition(":")
    door = sockets.open_listener(
        address.strip("[]"), int(port), given_by="the setting hosts_listen"
    )
    stack.callback(door.close)
    return door


def _joins_at(settings: Settings, door: socket.socket | None) -> str:
    if door is None:
        return ""
    return settings.hosts_address or sockets.public_url(door).removeprefix("http://")


async def _let_hosts_in(
    cloud: Cloud, door: socket.socket | None, stack: AsyncExitStack
) -> list[asyncio.Task[None]]:
    """Serve where hosts join, if they may; return what does so."""
    if door is None or cloud.fleet is None:
        return []
    app, context = fleet_door.build(cloud.fleet, cloud.audit), cloud.fleet.door_context
    served = listening(app, door, context=context, most=most_joining, hears_signals=False)
    return [await stack.enter_async_context(served)]


async def _until_first(
    served: Sequence[asyncio.Task[None]], tasks: Sequence[asyncio.Task[None]]
) -> None:
    """Return when one task ends, raising what it raised; cancel and await those not served."""
    try:
        done, _ = await asyncio.wait([*served, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
