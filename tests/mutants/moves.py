"""Faults seeded in moves between hosts: who is asked, who is left, and in what order."""

from __future__ import annotations

from tests.mutants.mutant import FAILING, STEPS, Mutant

MOVES = "compute/moves/sagas"
LEAVING, CLAIMING = f"{MOVES}/leaving.py", f"{MOVES}/claiming.py"
SENDING, SAGA = f"{MOVES}/sending.py", f"{MOVES}/live_migrate.py"
QUEUE = "tests/compute/test_move_queue.py"
LIVE, KEEPER = "tests/compute/test_live_migration.py", "tests/compute/test_keeper.py"

MUTANTS = [
    Mutant(
        "only the source is asked who has the guest",
        LEAVING,
        "    there = await _look(run, destination, server_id)\n",
        '    there: keeper.Seen = "absent"\n',
        LIVE,
        "moves_with_its_volumes",
    ),
    Mutant(
        "a guest that runs at its source is sought at the destination",
        "compute/moves/keeper.py",
        "        if source == state:\n",
        '        if source == state and destination == "absent":\n',
        KEEPER,
    ),
    Mutant(
        "a guest is sought while it may still be sent",
        LEAVING,
        "    await _stop_sending(run, source, server_id, sending)\n",
        "    del sending\n",
        LIVE,
        "comes_late",
    ),
    Mutant(
        "the source's attachment goes before the source has let go",
        LEAVING,
        '        Step("disconnect_left", _left.leave),\n        Step("delete_left", _left.end),\n',
        '        Step("delete_left", _left.end),\n        Step("disconnect_left", _left.leave),\n',
        LIVE,
        "source_that_will_not_let_go",
    ),
    Mutant(
        "the room at the destination is given back",
        CLAIMING,
        "        if notes.has_moved:\n",
        "        if not notes.has_moved:\n",
        LIVE,
        "moves_with_its_volumes",
    ),
    Mutant(
        "a move that its user aborted has failed by itself",
        SENDING,
        "reason=_aborted(notes).public, aborted=True)",
        "reason=_aborted(notes).public)",
        LIVE,
        "aborted_while",
    ),
    Mutant(
        "a move that is over can be aborted",
        "compute/moves/live_migrating.py",
        '_ABORTABLE = frozenset({"running"})\n',
        '_ABORTABLE = frozenset({"running", "cancelled"})\n',
        LIVE,
        "aborted_while",
    ),
    Mutant(
        "the source keeps what it has of a guest that has moved",
        LEAVING,
        "        await guests.destroy(run, notes.source, notes.server_id)\n",
        "        del run\n",
        LIVE,
        "moves_with_its_volumes",
    ),
    Mutant(
        "the destination stays connected when nothing comes of a move",
        SAGA,
        "            undo=_there.leave,\n",
        "            undo=_there.complete,\n",
        STEPS,
        f"{FAILING} and live_migrate and complete_there",
    ),
    Mutant(
        "a deletion ends a guest at one of its hosts",
        "compute/delete/sagas/delete_server.py",
        "        lambda notes: notes.elsewhere,\n",
        "        lambda _: [],\n",
        LIVE,
        "deleted_where",
    ),
    Mutant(
        "a reset believes that a guest is where it was",
        "compute/moves/sagas/adopting.py",
        "    if left is None:\n",
        "    if left is not None:\n",
        LIVE,
        "reset_is_where",
    ),
    Mutant(
        "servers that share a volume refuse each other's moves",
        SAGA,
        '        *(shared(f"volume:{disk.volume_id}") for disk in notes.disks),\n',
        '        *(exclusive(f"volume:{disk.volume_id}") for disk in notes.disks),\n',
        LIVE,
        "share_a_volume",
    ),
    Mutant(
        "a volume that is being given to another server ends a move",
        "compute/volumes/second_place.py",
        '    if volume.status == "attaching" or may_be_over:\n',
        "    if may_be_over:\n",
        LIVE,
        "waits_for_a_volume",
    ),
    Mutant(
        "a member of a group keeps the place that it did not take",
        LEAVING,
        "        affinity.leave_place(tx, notes.server_id)\n",
        "        pass\n",
        LIVE,
        "leaves_to_others",
    ),
    Mutant(
        "an extend asks the host that its server has left",
        "compute/volumes/sagas/extend_notes.py",
        "    return replace(notes, block_device_id=row.id, host=server.host)\n",
        "    return replace(notes, block_device_id=row.id)\n",
        LIVE,
        "to_grow",
    ),
    Mutant(
        "a move takes its turn whoever came before it",
        "compute/moves/turns.py",
        "    if most and _count_ahead(tx, compute, row, now) >= most:\n",
        "    if most and _count_ahead(tx, compute, row, now) >= most + 1:\n",
        QUEUE,
        "one_guest_leaves",
    ),
    Mutant(
        "who came last goes first",
        "compute/moves/turns.py",
        "one.status in _UNDER_WAY or one.id < row.id]\n",
        "one.status in _UNDER_WAY or one.id > row.id]\n",
        QUEUE,
        "one_guest_leaves",
    ),
    Mutant(
        "a move to a silent host holds up the others",
        "compute/moves/turns.py",
        "Host.forced_down.is_(False), Host.last_seen_at >= since)\n",
        "Host.last_seen_at != since)\n",
        QUEUE,
        "silent_host",
    ),
    Mutant(
        "nobody tells the next that it is its turn",
        "compute/moves/turns.py",
        "        compute.sagas.signal(tx, signal_of(one.id))\n",
        "        compute.sagas.signal(tx, signal_of(-one.id))\n",
        QUEUE,
        "taken_away",
    ),
    Mutant(
        "a host that does not hold a guest still yet ends its move",
        SENDING,
        "        if is_fenced(error):\n            raise\n",
        "        raise\n",
        "tests/compute/test_moves_refused.py",
        "not_sent_yet",
    ),
]
