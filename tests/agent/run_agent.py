"""An agent as a process of its own, for tests that kill it.

Arguments: STATE_DIR HYPERVISOR [KILL_AT [STORAGE [NAME [MOVE_ADDRESS [WORD...]]]]]. With the word
`joined` it is a host that joined some cloud, though it has a socket; `clear` is move_tls = false.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

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


def run(words: Sequence[str]) -> None:
    """Run an agent until it is told to end."""
    given = dict(enumerate(words))
    storage = read_storage(given.get(3, ""))
    settings = AgentSettings(
        name=given.get(4, "host-1"),
        state_dir=Path(given[0]),
        hypervisor=cast("Any", given[1]),
        roles=("compute", "volume", "share"),
        pools=storage.pools,
        share_pools=storage.share_pools,
        mounts=storage.mounts,
        move_address=given.get(5, ""),
        move_tls=False if "clear" in words[6:] else None,
    )
    probe = from_setting(given.get(2, ""))
    ready = let_join if "joined" in words[6:] else None
    asyncio.run(serve(settings, settings.state_dir / "socket", probe=probe, ready=ready))


if __name__ == "__main__":
    run(sys.argv[1:])
