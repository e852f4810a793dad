"""Have libvirt suspend or resume a guest: `python -m tests.hosts.order_libvirt AGENT WORD SERVER`.

AGENT is the state directory of an agent that does not run.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from mooring.agent.libvirt import confinement
from mooring.agent.libvirt.connection import Connection
from mooring.agent.run import Runner
from mooring.agent.seclusion import EMULATOR
from mooring.fence.journal import Journal


async def order(state_dir: Path, word: str, server_id: str) -> None:
    """Do what the word says with the guest of a server."""
    journal = Journal(state_dir / "order.sqlite")
    runner = Runner(journal)
    connection = Connection(state_dir / "libvirt", runner)
    confined = await confinement.find(runner, confinement.choose_user(EMULATOR), state_dir)
    await connection.open(confined.conf())
    domain = connection.handle.lookupByUUIDString(server_id)
    verbs = {"suspend": domain.suspend, "resume": domain.resume}
    await connection.call(verbs[word])
    await connection.close()
    await journal.close()


if __name__ == "__main__":
    asyncio.run(order(Path(sys.argv[1]), *sys.argv[2:]))
