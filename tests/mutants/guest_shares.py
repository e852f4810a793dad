"""Faults seeded in what a host mounts for its guests: who needs a share, and who starts without."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

KEEPING = "agent/share_mounts/keeping.py"
CONTRACT, KEPT = "tests/contract/test_guest_shares.py", "tests/agent/test_guest_shares.py"

MUTANTS = [
    Mutant(
        "a share is unmounted that another server needs",
        KEEPING,
        "is_last = users == [use] and",
        "is_last = bool(users) and",
        CONTRACT,
        "simulated and servers_share_a_mount",
    ),
    Mutant(
        "a share is unmounted that a guest has of which no record tells",
        KEEPING,
        "if is_last and not await self._has_guest(path):",
        "if is_last:",
        KEPT,
        "whose_record_is_gone",
    ),
    Mutant(
        "a share is unmounted while nobody can tell whose it is",
        KEEPING,
        " == [use] and not unread\n",
        " == [use]\n",
        KEPT,
        "damaged_record_keeps_its_mount",
    ),
    Mutant(
        "a guest starts before its share is mounted",
        KEEPING,
        " use.path != share.path or path not in await mounter.mounted():\n",
        " use.path != share.path:\n",
        KEPT,
        "after_a_reboot",
    ),
    Mutant(
        "a mount that fails stays noted",
        KEEPING,
        "                if known is None:\n",
        "                if known is not None:\n",
        KEPT,
        "mount_that_fails",
    ),
    Mutant(
        "a lost mount is given to the next server",
        KEEPING,
        "                await mounter.unmount(path)\n        await mounter.mount(",
        "                pass\n        await mounter.mount(",
        KEPT,
        "lost_mount_is_made_anew",
    ),
    Mutant(
        "a share is taken from a running guest",
        "agent/simulated_guest_shares.py",
        "for one in guest.live_shares):\n",
        "for one in list[GuestShare]()):\n",
        CONTRACT,
        "simulated and running_guest_has",
    ),
    Mutant(
        "an export leads out of its server's tree",
        "agent/share_mounts/exports.py",
        ' or {"..", "."} & set(found[2].split("/")):',
        ":",
        CONTRACT,
        "simulated and no_export",
    ),
    Mutant(
        "a directory of this machine is bound for whom no rule lets in",
        "agent/share_mounts/local_shares.py",
        "        raise not_let_in(export, address)\n",
        '        return "rw"\n',
        "tests/agent/test_share_mounts.py",
        "links and not_let_in",
    ),
    Mutant(
        "a client that has guests' data is ended by the next mount",
        "agent/share_mounts/cephfs.py",
        "        if await run_to_end(begun.exists):\n",
        "        if begun.name:\n",
        "tests/agent/test_cephfs_clients.py",
        "still_has",
    ),
]
