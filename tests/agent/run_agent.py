"""An agent as a process of its own, for tests that kill it.

Arguments: STATE_DIR HYPERVISOR [KILL_AT [STORAGE [NAME [MOVE_ADDRESS [tls]]]]].
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from mooring.agent.main import serve
from mooring.agent.settings import AgentSettings
from mooring.agent.storage_file import read_storage
from mooring.probe import from_setting

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
        move_tls="tls" in sys.argv[7:],
    )
    probe = from_setting(sys.argv[3] if len(sys.argv) > 3 else "")
    asyncio.run(serve(settings, state_dir / "socket", probe=probe))
