"""From vm_state and task_state to the status that users see, and back (facts/compute.md 1.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mooring.compute.servers.server_list import StateChoice

_REBUILD: Mapping[str, str] = {
    "rebuilding": "REBUILD",
    "rebuild_block_device_mapping": "REBUILD",
    "rebuild_spawning": "REBUILD",
}
_RESIZE: Mapping[str, str] = {
    "resize_prep": "RESIZE",
    "resize_migrating": "RESIZE",
    "resize_migrated": "RESIZE",
    "resize_finish": "RESIZE",
}

_STATUSES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "active": (
        "ACTIVE",
        {
            "rebooting": "REBOOT",
            "reboot_pending": "REBOOT",
            "reboot_started": "REBOOT",
            "rebooting_hard": "HARD_REBOOT",
            "reboot_pending_hard": "HARD_REBOOT",
            "reboot_started_hard": "HARD_REBOOT",
            "updating_password": "PASSWORD",
            "migrating": "MIGRATING",
            **_REBUILD,
            **_RESIZE,
        },
    ),
    "building": ("BUILD", {}),
    "stopped": ("SHUTOFF", {**_RESIZE, **_REBUILD}),
    "resized": ("VERIFY_RESIZE", {"resize_reverting": "REVERT_RESIZE"}),
    "paused": ("PAUSED", {"migrating": "MIGRATING"}),
    "suspended": ("SUSPENDED", {}),
    "rescued": ("RESCUE", {}),
    "error": ("ERROR", _REBUILD),
    "deleted": ("DELETED", {}),
    "soft-delete": ("SOFT_DELETED", {}),
    "shelved": ("SHELVED", {}),
    "shelved_offloaded": ("SHELVED_OFFLOADED", {}),
}

WITH_PROGRESS = frozenset({"ACTIVE", "BUILD", "REBUILD", "RESIZE", "VERIFY_RESIZE", "MIGRATING"})
WITH_FAULT = frozenset({"ERROR", "DELETED"})


def status(vm_state: str, task_state: str | None) -> str:
    """Return the status of a server."""
    plain, by_task = _STATUSES.get(vm_state, ("UNKNOWN", {}))
    return by_task.get(task_state, plain) if task_state else plain


def choices(statuses: Iterable[str]) -> list[StateChoice]:
    """Return every pair of states that shows as one of `statuses`; none for unknown words."""
    wanted = {word.upper() for word in statuses}
    found: list[StateChoice] = []
    for vm_state, (plain, by_task) in _STATUSES.items():
        if plain in wanted:
            others = frozenset(task for task, shown in by_task.items() if shown not in wanted)
            found.append(StateChoice(vm_state, other_tasks=others))
            continue
        tasks = frozenset(task for task, shown in by_task.items() if shown in wanted)
        if tasks:
            found.append(StateChoice(vm_state, tasks=tasks))
    return found
