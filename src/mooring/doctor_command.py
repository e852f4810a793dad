"""`mooring doctor`: asks the running cloud, or looks by itself when none runs."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import click
import msgspec

from mooring import installation, limits, state_dir, typed
from mooring.access import read_authority, read_login, token_of
from mooring.agent_api.client import Agents
from mooring.clients.identity import Asked, ServiceUser, ask
from mooring.clients.transport import Network
from mooring.clock import RealClock
from mooring.doctor.app import PATH
from mooring.doctor.examine import examine
from mooring.doctor.findings import Finding
from mooring.errors import Conflict
from mooring.fleet.fleet import open_fleet
from mooring.saga.seal import load_sealer
from mooring.services import FLEET, databases_of
from mooring.store.base import open_store
from mooring.up import host_names, known_agents, open_hosts

if TYPE_CHECKING:
    from mooring.config import Settings

DOCTOR = Asked(
    "doctor",
    limits.DOCTOR_CALL_S,
    f"The doctor did not answer within {limits.DOCTOR_CALL_S:g} s. The cloud's log may say why.",
)


async def run_doctor(settings: Settings, *, as_json: bool, fix: bool) -> int:
    """Examine the cloud of a state directory and print what is found; return 0 for nothing."""
    if state_dir.is_held(settings.state_path) or settings.database:
        found = await _ask_cloud(settings, fix=fix)
    elif fix:
        message = "The cloud does not run, and only it can mend itself. Start it with `mooring up`."
        raise Conflict(message)
    else:
        found = await _look(settings)
    _print(found, as_json=as_json)
    return 1 if found else 0


async def _ask_cloud(settings: Settings, *, fix: bool) -> list[Finding]:
    url, login = read_login(settings.state_path)
    network = Network(read_authority(settings.state_path))
    try:
        user = ServiceUser(network, f"{url}/identity/v3", login, clock=RealClock())
        headers = {"X-Auth-Token": await token_of(user, url, settings.state_path)}
        method = "POST" if fix else "GET"
        answer = await ask(network, method, f"{url}{PATH}", headers, of=DOCTOR)
    finally:
        await network.aclose()
    return typed.convert(msgspec.json.decode(answer.content)["findings"], list[Finding])


async def _look(settings: Settings) -> list[Finding]:
    """Open databases and hosts of a cloud that does not run. No operation goes on meanwhile."""
    read_login(settings.state_path)
    async with AsyncExitStack() as stack:
        stack.callback(state_dir.hold(settings.state_path).release)
        agents = Agents()
        known_agents(settings, agents)
        if all((settings.state_path / "hosts" / name).is_dir() for name in host_names(settings)):
            # One that never ran would be made here, and has nothing to look at.
            await open_hosts(settings, agents, stack, lambda _: None)
        stack.push_async_callback(agents.close)
        location = str(settings.state_path)
        names = databases_of(has_fleet=bool(settings.hosts_listen))
        opened = await asyncio.gather(*(open_store(location, name) for name in names))
        for store in opened:
            stack.push_async_callback(store.close)
        stores = dict(zip(names, opened, strict=True))
        if FLEET in stores:
            sealer = load_sealer(settings.state_path / installation.SEAL_KEY)
            await open_fleet(stores[FLEET], sealer, agents, RealClock())
        return await examine(stores, agents, RealClock(), settings)


def _print(found: list[Finding], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(found)).decode() + "\n")
        return
    for one in found:
        click.echo(f"{one.resource}: {one.message}\n    {one.advice}")
    counted = "1 finding." if len(found) == 1 else f"{len(found)} findings."
    click.echo(counted if found else "Everything agrees.")
