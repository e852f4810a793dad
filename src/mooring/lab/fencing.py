"""Fence a host of a lab: end every process of it, guests too, as the loss of its power does.

`python -m mooring.lab.fencing STATE_DIR NAME` is the fence command of `mooring up --hosts N`,
unless the operator names another one. `mooring up` starts the host's agent again, as a machine does
that comes back; its guests stay off.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from mooring.agent.run import find_processes, start_time
from mooring.agent.settings import AgentSettings
from mooring.agent.simulated import SimulatedHypervisor
from mooring.agent.waiting import until
from mooring.agent.world import FILE as WORLD
from mooring.errors import Invalid, MooringError, Unavailable
from mooring.fence.threads import run_to_end
from mooring.host_fence import HOST
from mooring.lab.namespaces import Network
from mooring.lab.processes import agent_words
from mooring.lab.residents import Home, Resident, end_residents, find_home, find_residents
from mooring.process_groups import check_pid

_ENDS_S = 30.0


def command(state_path: Path) -> tuple[str, ...]:
    """Return the fence command for the hosts of the lab in a state directory."""
    return (sys.executable, "-m", "mooring.lab.fencing", str(state_path), HOST)


async def fence(state_path: Path, name: str) -> None:
    """End all that a host has had running until now.

    Raises Invalid for a name that is none of this lab's hosts, Unavailable when something stays.
    """
    directory = state_path / "hosts" / name
    if Path(name).name != name or not directory.is_dir():
        raise Invalid(f"{name} is no host of the lab in {state_path}. Nothing was ended.")
    now = start_time(os.getpid())
    # First who would start guests again.
    await _end_agent(name, directory)
    home = await run_to_end(lambda: find_home(directory))
    while there := await run_to_end(lambda: _find_residents(state_path, home, now)):
        daemons = [one for one in there if one.is_daemon]
        await end_residents(daemons or there, signal.SIGKILL)
    if (directory / WORLD).exists():
        await _switch_off(name, directory)


async def _end_agent(name: str, directory: Path) -> None:
    words = f"{' '.join(agent_words(name, directory))} "
    for pid in await run_to_end(lambda: find_processes(words)):
        started = start_time(pid)
        with suppress(ProcessLookupError):
            os.kill(check_pid(pid), signal.SIGKILL)
        if not await until(lambda one=pid, at=started: start_time(one) != at, _ENDS_S):
            raise Unavailable(f"Process {pid}, the agent of host {name}, does not end.")


def _find_residents(state_path: Path, home: Home | None, until_then: float) -> list[Resident]:
    """Return a host's daemon and guests, but those that were started after a moment."""
    return [
        one
        for namespace in Network(state_path).standing()
        for one in find_residents(namespace.file)
        if one.home == home and one.started <= until_then
    ]


async def _switch_off(name: str, directory: Path) -> None:
    """Stop the guests of a simulated host, which are no processes."""
    hypervisor = SimulatedHypervisor(
        AgentSettings(name=name, state_dir=directory, hypervisor="simulated")
    )
    try:
        for guest in await hypervisor.guests():
            await hypervisor.power_off(guest.server_id, 0.0)
    finally:
        await hypervisor.close()


def main(state_dir: str, name: str) -> None:
    """Fence, and say how it went."""
    try:
        asyncio.run(fence(Path(state_dir), name))
    except (MooringError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(1)
    sys.stdout.write(f"Every process of host {name} has ended.\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
