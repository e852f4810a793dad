"""What a server is once its guest's power has changed, by how the guest is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.compute.power.sagas.power_notes import ChangePower
from mooring.compute.servers import states
from mooring.compute.tables import Server

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

STATES = {
    "running": ("active", states.RUNNING),
    "paused": ("paused", states.PAUSED),
    # Its host knows a guest that is off, as upstream's does.
    "suspended": ("suspended", states.SHUTDOWN),
    "stopped": ("stopped", states.SHUTDOWN),
    "crashed": ("stopped", states.SHUTDOWN),
}
"""The vm_state and power_state of a server, by how its guest is."""
_GUESTS = {"off": "stopped", "pause": "paused", "suspend": "suspended"}
"""How a guest is after a change; after every other one it runs."""
WITH_SHARES = frozenset({"running", "paused"})
"""How guests are that have their shares mounted."""
OFF = frozenset({"stopped", "crashed"})
"""How guests are that have no use of them."""


def guest_after(notes: ChangePower) -> str:
    """Return how the guest is when it was changed as it was to be."""
    return _GUESTS.get(notes.state, "running")


def seen(tx: Session, notes: ChangePower) -> dict[str, Any]:
    """Return the columns that a look at the guest changes; a server in ERROR stays so."""
    server = tx.get_one(Server, notes.server_id)
    if server.vm_state == "error" or notes.found not in STATES:
        return {}
    vm_state, power_state = STATES[notes.found]
    if (server.vm_state, vm_state) == ("shelved", "stopped"):
        return {"power_state": power_state}
    return {"vm_state": vm_state, "power_state": power_state}
