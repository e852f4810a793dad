"""Faults seeded in moves of root disks that lie on their hosts: which of two is kept, and where."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SAGAS = "compute/moves/sagas"
ROOT, SWITCHING, VERIFYING = (
    f"{SAGAS}/root_disk.py",
    f"{SAGAS}/switching.py",
    f"{SAGAS}/verifying.py",
)
LOCAL, GROWING = "tests/compute/test_local_disks.py", "tests/compute/test_growing_disks.py"
CONTRACT = "tests/contract/test_copies.py"

MUTANTS = [
    Mutant(
        "a deletion that fails leaves what other hosts have",
        "compute/delete/sagas/elsewhere.py",
        "    for host in notes.elsewhere:\n",
        "    for host in list[str]():\n",
        "tests/laws/test_steps.py",
        "failing_anywhere and delete_server/destroy_guest/forward/before",
    ),
    Mutant(
        "the disk that a server left is removed before its user's word",
        VERIFYING,
        "        await guests.destroy(run, notes.source, notes.server_id, keeps_disks=True)\n",
        "        await guests.destroy(run, notes.source, notes.server_id)\n",
        LOCAL,
        "goes_back_to_the_disk",
    ),
    Mutant(
        "a server that could not go back loses the disk that it might go back to",
        SWITCHING,
        "    keeps_disks = notes.goes_with_disk and bool(notes.reverted)\n",
        "    keeps_disks = False\n",
        LOCAL,
        "keeps_both_disks",
    ),
    Mutant(
        "a larger flavor comes with the same disk",
        ROOT,
        "    grows = host == notes.destination and not notes.reverted and not notes.reason\n",
        "    grows = host != notes.destination\n",
        GROWING,
        "grows_on",
    ),
    Mutant(
        "what was written since is lost though the server did not go back",
        ROOT,
        "            await agent.take_back_restored(notes.server_id, operation=bringing)\n",
        "            del agent, bringing\n",
        GROWING,
        "former_size_that_does_not_start",
    ),
    Mutant(
        "a confirmed resize keeps the former disk for ever",
        ROOT,
        "    elif notes.is_local:\n",
        "    elif notes.exchanges_disk:\n",
        GROWING,
        "on_its_host_and_is_confirmed",
    ),
    Mutant(
        "a copy that was given up may come late",
        ROOT,
        "    await guest_disks.discard_copy(run, notes.destination, notes.server_id, bringing)\n",
        "    await guest_disks.discard_copy(run, notes.destination, notes.server_id)\n"
        "    del bringing\n",
        LOCAL,
        "comes_late",
    ),
    Mutant(
        "a server that was deleted or reset is copied all the same",
        "compute/hosts/guest_disks.py",
        "    if is_local:\n",
        "    if not is_local:\n",
        LOCAL,
        "taken_over",
    ),
    Mutant(
        "a reset leaves a server the disk of another size",
        f"{SAGAS}/adopting.py",
        "            await agent.take_back_restored(server_id, operation=run.operation)\n",
        "            assert agent\n",
        GROWING,
        "former_size_leaves_it_the_new_one",
    ),
    Mutant(
        "a guest is stopped for a disk that is not made smaller",
        f"{SAGAS}/claiming.py",
        "    if notes.is_local and notes.size.disk_gib < notes.former.disk_gib:\n",
        "    if notes.is_local and notes.size.disk_gib < 0:\n",
        GROWING,
        "smaller_disk",
    ),
    Mutant(
        "a copy is given up though it gets on",
        ROOT,
        "    if seen.copied_bytes > notes.copied:\n",
        "    if seen.copied_bytes < notes.copied:\n",
        LOCAL,
        "gets_on_is_not",
    ),
    Mutant(
        "a grown disk is started by a call that comes after its server had its own again",
        SWITCHING,
        "    if notes.brought:\n",
        "    if not notes.brought:\n",
        GROWING,
        "size_that_comes_late",
    ),
    Mutant(
        "a disk that was put aside is thrown away",
        "agent/copying.py",
        "        files.finish(own, _beside(own, other))\n",
        "        assert other\n",
        CONTRACT,
        "simulated and restored_is_taken_back",
    ),
    Mutant(
        "a guest that comes back finds no disk",
        "agent/servers.py",
        '    keeps_disks = bool(call.number("keeps_disks", 0))\n',
        "    keeps_disks = False\n",
        CONTRACT,
        "simulated and leaves_its_disk",
    ),
]
