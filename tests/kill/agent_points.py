"""Where an agent is killed: in every verb, at each host that is asked for it; what leads there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

from msgspec import Struct

from mooring.agent import (
    captures,
    copying,
    disks,
    guest_shares,
    mirrors,
    moves,
    servers,
    shares,
    snapshots,
    volume_captures,
    volume_snapshots,
    volumes,
)
from mooring.agent_api import verbs
from tests.kill.extend_workload import CLAIM
from tests.kill.harness import FIRST, OTHER, Answer
from tests.kill.move_workload import (
    COLD,
    COPY,
    FORCE,
    GROW,
    MOVE,
    ON_ITS_WAY,
    REVERT,
    UNDONE,
)
from tests.kill.snapshot_workload import MIGRATE, MIGRATE_IN_USE, SWAP_MIGRATED

Act = Callable[[], Answer]
_ON_ITS_OWN = "asked of hosts that joined, by no operation: tests/fleet/test_killed_renewal.py"
_BY_PEOPLE = "typed by people, who open it again: tests/compute/test_serial_consoles.py"
UNUSED = {
    "fence_holder": "takes an image from its holder: for operators, no operation asks for it",
    "lift_fence": "takes back what no operation asks for",
    "withdraw_offer": "a server is reset in the middle of its move",
    "put_certificate": _ON_ITS_OWN,
    "put_move_certificates": _ON_ITS_OWN,
    **dict.fromkeys(("open_serial", "write_serial", "close_serial"), _BY_PEOPLE),
}
"""Verbs that nothing asks for here, and why: when they are asked for, or where they are killed."""
_MODULES = (
    *(servers, disks, volumes, moves, copying, captures),
    *(snapshots, volume_captures, volume_snapshots, shares, guest_shares, mirrors),
)
VERBS = [
    name
    for module in _MODULES
    for name in module.handlers.by_name
    if verbs.VERBS[name].method != "GET" and name not in UNUSED
]
SWAP = "compute.swap_volume"
UNWINDING = {
    "forget_resize": "!compute.extend_volume/resize_disk/forward/after",
    "forget_content": "!volume.reimage_volume/replace_content/forward/after",
    "forget_revert": "!volume.revert_volume/revert_content/forward/after",
    "take_back_snapshot": "!compute.snapshot_volume/snapshot_disk/forward/after",
    "stop_merge": "!compute.delete_volume_snapshot/merge_disk/forward/after",
    "delete_arrival": UNDONE,
    "stop_mirror": f"!{SWAP}/await_copy/forward/before",
    "discard_copy": f"!{COLD}/start_there/forward/before",
    "take_back_restored": f"!{REVERT}/start_there/forward/before",
}
"""What has to fail so that an agent is asked for a verb that only takes back."""
_MIGRATING, _COPYING = ("adopt_copy", "delete_image"), ("mirror_disk", "stop_mirror", "switch_disk")
_ELSEWHERE = {"connect", "put_arrival", "delete_arrival", "put_copy", "discard_copy", *_MIGRATING}
"""Verbs that only the host is asked which a server, or a volume, moves to: otherwise `plug_disk`
and `put_server` connect."""
_BOTH = {
    "disconnect": REVERT,
    "put_server": COLD,
    "delete_server": REVERT,
    "mount_share": f"{COLD}/mount_there",
    "unmount_share": f"{REVERT}/unmount_left",
}
"""Verbs that it is asked, too, and what a move has to come to for that."""
_OFTEN = ("volume.end_legacy", "compute.extend_volume")
"""What brings an agent to what the ten operations do not, besides what stands below."""
_BESIDES = {
    **dict.fromkeys(("connect", *moves.handlers.by_name), MOVE),
    "hasten_departure": FORCE,
    **dict.fromkeys(("put_offer", "put_copy", "discard_copy"), COPY),
    **dict.fromkeys(("keep_disks", "restore_kept", "forget_kept", "take_back_restored"), GROW),
    "claim_server": "compute.reset_state/settle_image",
    "claim_volume": CLAIM,
    **dict.fromkeys(captures.handlers.by_name, "compute.create_image"),
    **dict.fromkeys(("replace_content", "forget_content"), "volume.reimage_volume"),
    **dict.fromkeys(("put_snapshot", "snapshot_disk"), "volume.create_snapshot"),
    "take_back_snapshot": "volume.create_snapshot",
    **dict.fromkeys(("delete_snapshot", "record_merge"), "volume.delete_snapshot"),
    **dict.fromkeys(("merge_disk", "stop_merge"), "volume.delete_snapshot"),
    **dict.fromkeys(("revert_volume", "forget_revert"), "volume.revert_volume"),
    **dict.fromkeys(_MIGRATING, MIGRATE),
    **dict.fromkeys(volume_captures.handlers.by_name, "volume.upload_volume"),
    **dict.fromkeys(_COPYING, SWAP),
    "put_share": "share.create_share",
    "delete_share": "share.delete_share",
    "resize_share": "share.extend_share",
    **dict.fromkeys(("claim_share", "forget_share_size"), "share.reset_status/look_at_storage"),
    "grant_access": "share.apply_rule",
    "revoke_access": "share.deny_rule",
    "put_share_snapshot": "share.create_snapshot",
    "delete_share_snapshot": "share.delete_snapshot",
    "mount_share": "compute.start_server/mount_share",
    "unmount_share": "compute.stop_server/unmount_share",
}


class AgentPoint(Struct, frozen=True):
    """A point at which an agent is killed: where `host` begins a verb, or has acted on it.

    One that `migrates` does so for a volume in use that goes to a pool of another host, and not for
    what else asks for the verb.
    """

    host: str
    verb: str
    moment: str
    migrates: bool = False

    @property
    def name(self) -> str:
        """What the test is called by."""
        return f"{self.host}/{self.verb}/{self.moment}{'/migrating' if self.migrates else ''}"

    @property
    def kill_at(self) -> str:
        """What the setting of its agent must say."""
        return f"agent/{self.verb}/{self.moment}"

    @property
    def held_at(self) -> str:
        """Where simulated work of the first host waits (`ForkedProcess`); empty for nowhere."""
        return ON_ITS_WAY if self.verb == "hasten_departure" else ""

    @property
    def failing(self) -> str:
        """What the setting of the control plane must say; empty for nothing."""
        failing = UNWINDING.get(self.verb, "")
        return failing.replace(SWAP, SWAP_MIGRATED) if self.migrates else failing

    def besides(self, rarer: Mapping[str, list[Act]]) -> list[Act]:
        """Return what is done besides the ten operations, of `rarer_operations`."""
        if self.migrates:
            return rarer[MIGRATE_IN_USE]
        if self.host == OTHER and self.verb in _BOTH:
            return rarer[_BOTH[self.verb]]
        names = (_BESIDES[self.verb],) if self.verb in _BESIDES else _OFTEN
        return [act for name in names for act in rarer[name]]

    @property
    def is_of_move(self) -> bool:
        """Whether there have to be two hosts."""
        if self.migrates:
            return True
        return self.host == OTHER or _BESIDES.get(self.verb) in {MOVE, COPY, GROW, FORCE}


_MOMENTS = {
    "mirror_disk": ("begin", "standing", "started", "acted"),
    "put_capture": ("begin", "copied", "acted"),
}
"""Where a guest stands still, or a disk is copied, in the middle of a verb, it is killed there,
too."""
_WHEN = ("begin", "acted")
_OF_EACH_VERB = [
    AgentPoint(host, verb, moment)
    for verb, host in itertools.product(VERBS, (FIRST, OTHER))
    if (verb in _BOTH or (host == OTHER) == (verb in _ELSEWHERE))
    for moment in _MOMENTS.get(verb, _WHEN)
]
_OF_MIGRATIONS = [
    AgentPoint(FIRST, verb, moment, migrates=True)
    for verb in (*_COPYING, "adopt_copy")
    for moment in _MOMENTS.get(verb, _WHEN)
]
"""A new volume goes to the other host, which has more room, and from there to the server's."""
AGENT_POINTS = [*_OF_EACH_VERB, *_OF_MIGRATIONS]
