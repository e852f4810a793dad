"""Faults seeded in the compute service."""

from __future__ import annotations

from tests.mutants.mutant import FAILING, STEPS, Mutant

MUTANTS = [
    Mutant(
        "an undo knows only what it remembers",
        "compute/volumes/disks.py",
        "made = await volumes.session.bury(run.operation)",
        "made: list[str] | None = [remembered] if remembered else []",
        STEPS,
        f"{FAILING} and attach_volume and create_attachment",
    ),
    Mutant(
        "a failure keeps the place on its host",
        "compute/create/sagas/create_server.py",
        "    if not notes.abandoned:\n        await run.service.placement.release",
        "    if notes.abandoned:\n        await run.service.placement.release",
        STEPS,
        f"{FAILING} and create_server and spawn_guest",
    ),
    Mutant(
        "a detach that failed leaves the volume detaching",
        "compute/volumes/sagas/detach_volume.py",
        '    operation = guests.other(run.operation, "roll")\n',
        "    return\n",
        STEPS,
        f"{FAILING} and detach_volume",
    ),
    Mutant(
        "hosts that are back pay no debts",
        "compute/hosts/loops/watch_hosts.py",
        "        await _pay_debts(compute, agent)\n",
        "",
        "tests/laws/test_dead_host.py",
        "delete or create",
    ),
    Mutant(
        "a power change that failed goes on for ever",
        "compute/power/sagas/power.py",
        "    states.change(tx, notes.server_id, run.now(), task_state=None, **_seen(tx, notes))\n",
        "",
        STEPS,
        f"{FAILING} and stop_server",
    ),
    Mutant(
        "a deletion that gave up waiting leaves the server deleting",
        "compute/delete/sagas/delete_server.py",
        'Step("find_belongings", find_belongings, undo=give_up)',
        'Step("find_belongings", find_belongings)',
        "tests/laws/test_pairs.py",
        "too_long",
    ),
    Mutant(
        "the event is not waited for with the same image",
        "compute/rebuild/sagas/rebuild_server.py",
        "    if not is_told and not notes.waited:\n",
        "    if not is_told and notes.waited:\n",
        "tests/compute/test_rebuild_waits.py",
        "same_image",
    ),
    Mutant(
        "the old attachment goes before its host disconnects",
        "compute/rebuild/sagas/rebuild_server.py",
        '    Step("disconnect_root", disconnect_root),\n    Step("free_root", free_root),\n',
        '    Step("free_root", free_root),\n    Step("disconnect_root", disconnect_root),\n',
        "tests/compute/test_rebuild_waits.py",
        "only_after",
    ),
    Mutant(
        "reimage_timeout_per_gb is ignored",
        "compute/rebuild/rebuilding.py",
        "        wait_s=per_gib_s * max(1, image.size_gib),\n",
        "        wait_s=20.0 * max(1, image.size_gib),\n",
        "tests/compute/test_rebuild_waits.py",
        "per_gb",
    ),
    Mutant(
        "nobody waits until a volume is ready",
        "compute/volumes/disks.py",
        "    if volume.status in _NOT_READY:\n",
        '    if volume.status == "":\n',
        "tests/compute/test_volume_ready.py",
        "until_its",
    ),
    Mutant(
        "a volume that is never ready is waited for without end",
        "compute/volumes/disks.py",
        "timeout_s=run.service.settings.volume_ready_s",
        "timeout_s=1e9",
        "tests/compute/test_volume_ready.py",
        "no_longer",
    ),
]
