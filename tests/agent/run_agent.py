"""An agent as a process of its own, for tests that kill it.

Arguments: STATE_DIR HYPERVISOR [KILL_AT [STORAGE [NAME [MOVE_ADDRESS [WORD...]]]]]. With the word
`joined` it is a host that joined some cloud, though it has a socket; `clear` is move_tls = false.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from mooring import certificates
from mooring.agent.app import RunningAgent
from mooring.agent.certificate import Credentials
from mooring.agent.main import serve
from mooring.agent.settings import AgentSettings
from mooring.agent.storage_file import read_storage
from mooring.probe import from_setting
from tests.fleet.members import lay_member, now


def let_join(running: RunningAgent) -> None:
    """Make the host one that joined."""
    directory, name = running.agent.settings.state_dir, running.agent.settings.name
    member = lay_member(directory, certificates.make_authority(now()), name)
    context = certificates.server_context(member.held, asks_callers=True)
    running.agent.credentials = Credentials(directory, member, context)


if __name__ == "__main__":
    state_dir = Path(sys.argv[1])
    hypervisor: Any = sys.argv[2]
    storage = read_storage(sys.argv[4] if len(sys.argv) > 4 else "")
    settings = AgentSettings(
        name=sys.argv[5] if len(sys.argv) > 5 else "host-1",
        state_dir=state_dir,
        hypervisor=hypervisor,
        roles=("compute", "volume", "share"),
        pools=storage.pools,
        share_pools=storage.share_pools,
        mounts=storage.mounts,
        move_address=sys.argv[6] if len(sys.argv) > 6 else "",
        move_tls=False if "clear" in sys.argv[7:] else None,
    )
    probe = from_setting(sys.argv[3] if len(sys.argv) > 3 else "")
    ready = let_join if "joined" in sys.argv[7:] else None
    asyncio.run(serve(settings, state_dir / "socket", probe=probe, ready=ready))
