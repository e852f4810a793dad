"""Disks of a guest that arrived standing still: QEMU does not hold them until it runs.

libvirt always migrates so (`late-block-activate`). To grow such a disk, to save it or to send the
guest on ends QEMU 7.2 by a failed assertion, and the guest's memory with it: seen with a guest that
was paused, moved, and whose volume then grew. What is not async blocks: it is work for a thread.
"""

from __future__ import annotations

import json
from typing import Any

import libvirt_qemu

from mooring.agent.libvirt import states
from mooring.errors import Unavailable

_QEMU: Any = libvirt_qemu
_HOLD_ALL = "blockdev-set-active"
"""What QEMU has for it from 10.0 on."""
_NO_SERVER = "NBD server not running"
_EXPORT = "mooring-hold"


def hold(domain: Any) -> None:
    """Have QEMU hold the disks of a guest that stands still; it may hold them already.

    Raises Unavailable, where nothing was changed.
    """
    if states.state_of(domain) != "paused":
        return
    if _HOLD_ALL in {one["name"] for one in _ask(domain, "query-commands")}:
        _ask(domain, _HOLD_ALL, active=True)
        return
    for device in _ask(domain, "query-block"):
        inserted = device.get("inserted")
        if inserted and not inserted["ro"]:
            _hold_node(domain, inserted["node-name"])


def _hold_node(domain: Any, node: str) -> None:
    """Have QEMU hold one disk, with all that is below it.

    It does so before it looks whether what is to be exported can be: there is no server, so that
    nothing is, to nobody.
    """
    export = {"type": "nbd", "id": _EXPORT, "node-name": node, "writable": False}
    answer = _send(domain, "block-export-add", export)
    if "return" in answer:
        # There is one after all, libvirt's own.
        _ask(domain, "block-export-del", id=_EXPORT, mode="hard")
    elif answer["error"].get("desc") != _NO_SERVER:
        raise _unheard(domain, f"block-export-add of {node}: {answer}")


def _ask(domain: Any, command: str, **arguments: Any) -> Any:
    answer = _send(domain, command, arguments)
    if "return" not in answer:
        raise _unheard(domain, f"{command}: {answer}")
    return answer["return"]


def _send(domain: Any, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
    wanted = json.dumps({"execute": command, "arguments": arguments})
    return json.loads(_QEMU.qemuMonitorCommand(domain, wanted, 0))


def _unheard(domain: Any, reason: str) -> Unavailable:
    return Unavailable(
        f"QEMU did not take hold of the disks of server {domain.UUIDString()}, which stands still. "
        "Nothing was changed. Let it run (openstack server unpause), and ask again.",
        private=reason,
    )
