"""Law *told*: the notification of a saga's end is there exactly when its end is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring.notify import outbox
from mooring.notify.outbox import Notification
from mooring.saga.tables import SagaRow
from tests.cloud import SimulatedCloud


class Story(Struct, frozen=True):
    """What sagas of some names tell: `event` with a phase behind it, about a kind of thing."""

    sagas: frozenset[str]
    event: str
    about: str
    has_error: bool = False
    otherwise: str = ""
    """The event, with its phase, that it may end with instead."""


STORIES = (
    Story(
        frozenset(
            {
                "volume.create_volume",
                "volume.create_volume_from_snapshot",
                "volume.clone_volume",
                "volume.create_volume_from_backup",
            }
        ),
        "volume.create",
        "volume_id",
    ),
    Story(frozenset({"volume.create_backup", "volume.store_backup"}), "backup.create", "backup_id"),
    Story(frozenset({"volume.delete_backup"}), "backup.delete", "backup_id"),
    Story(
        frozenset({"volume.restore_backup", "volume.create_volume_from_backup"}),
        "backup.restore",
        "backup_id",
    ),
    Story(frozenset({"volume.revert_volume"}), "volume.revert", "volume_id"),
    Story(
        frozenset({"volume.delete_volume", "volume.force_delete_volume"}),
        "volume.delete",
        "volume_id",
    ),
    Story(
        frozenset({"share.create_share", "share.create_share_from_snapshot"}),
        "share.create",
        "share_id",
    ),
    Story(
        frozenset({"share.delete_share", "share.force_delete_share"}), "share.delete", "share_id"
    ),
    Story(frozenset({"share.extend_share"}), "share.extend", "share_id"),
    Story(frozenset({"share.shrink_share"}), "share.shrink", "share_id"),
    Story(frozenset({"compute.create_server"}), "instance.create", "server_id", has_error=True),
    Story(frozenset({"compute.delete_server"}), "instance.delete", "server_id"),
    Story(
        frozenset({"compute.attach_volume"}), "instance.volume_attach", "volume_id", has_error=True
    ),
    Story(frozenset({"compute.detach_volume"}), "instance.volume_detach", "volume_id"),
    Story(
        frozenset({"compute.swap_volume", "compute.swap_migrated_volume"}),
        "instance.volume_swap",
        "new_volume_id",
        has_error=True,
    ),
    Story(frozenset({"compute.attach_share"}), "instance.share_attach", "share_id", has_error=True),
    Story(frozenset({"compute.detach_share"}), "instance.share_detach", "share_id", has_error=True),
    Story(frozenset({"compute.start_server"}), "instance.power_on", "server_id"),
    Story(
        frozenset({"compute.stop_server", "compute.insist_on_stop"}),
        "instance.power_off",
        "server_id",
    ),
    Story(frozenset({"compute.pause_server"}), "instance.pause", "server_id"),
    Story(frozenset({"compute.unpause_server"}), "instance.unpause", "server_id"),
    Story(frozenset({"compute.suspend_server"}), "instance.suspend", "server_id"),
    Story(frozenset({"compute.resume_server"}), "instance.resume", "server_id"),
    Story(frozenset({"compute.rescue_server"}), "instance.rescue", "server_id"),
    Story(frozenset({"compute.unrescue_server"}), "instance.unrescue", "server_id"),
    Story(frozenset({"compute.offload_server"}), "instance.shelve_offload", "server_id"),
    Story(frozenset({"compute.shelve_server"}), "instance.shelve", "server_id"),
    Story(
        frozenset({"compute.unshelve_server", "compute.unshelve_here"}),
        "instance.unshelve",
        "server_id",
    ),
    Story(
        frozenset({"compute.create_image", "compute.create_backup"}),
        "instance.snapshot",
        "server_id",
    ),
    Story(
        frozenset({"compute.reboot_server", "compute.insist_on_reboot"}),
        "instance.reboot",
        "server_id",
        has_error=True,
    ),
    Story(
        frozenset({"compute.rebuild_server", "compute.renew_server", "compute.evacuate"}),
        "instance.rebuild",
        "server_id",
        has_error=True,
    ),
    Story(
        frozenset({"compute.live_migrate"}),
        "instance.live_migration_post",
        "server_id",
        otherwise="instance.live_migration_rollback.end",
    ),
    Story(
        frozenset({"compute.cold_migrate"}),
        "instance.resize_finish",
        "server_id",
        otherwise="instance.resize.error",
    ),
    Story(frozenset({"compute.confirm_resize"}), "instance.resize_confirm", "server_id"),
    Story(frozenset({"compute.revert_resize"}), "instance.resize_revert", "server_id"),
)


async def complain(cloud: SimulatedCloud) -> list[str]:
    """Return where what was told is not what happened."""
    lines: list[str] = []
    for service in ("volume", "share", "compute"):
        store = cloud.cloud.stores[service]
        sagas = await store.read(_sagas)
        told = await store.read(outbox.read)
        for story in STORIES:
            if next(iter(story.sagas)).startswith(service):
                lines += _compare(story, sagas, told)
    return lines


def _sagas(tx: Session) -> list[tuple[str, str, dict[str, Any]]]:
    rows = tx.execute(select(SagaRow.name, SagaRow.outcome, SagaRow.notes))
    return [(row.name, row.outcome, row.notes) for row in rows]


def _compare(
    story: Story, sagas: Sequence[tuple[str, str, dict[str, Any]]], told: Sequence[Notification]
) -> list[str]:
    mine = [(outcome, notes[story.about]) for name, outcome, notes in sagas if name in story.sagas]
    done = Counter(about for outcome, about in mine if outcome == "done")
    known = {f"{story.event}.end", story.otherwise}
    ends = Counter(_about(story, one) for one in told if one.event_type in known)
    phases = Counter(one.event_type.removeprefix(f"{story.event}.") for one in told)
    lines: list[str] = []
    # A second saga that found nothing left to delete is done, and tells nothing.
    if done.keys() != ends.keys() or any(ends[about] > done[about] for about in ends):
        lines.append(f"{sorted(known)} was told of {dict(ends)}, and done is {dict(done)}")
    silent = sum(outcome in {"absorbed", ""} for outcome, _ in mine)
    unended = phases["start"] - phases["end"] - phases["error"]
    if story.has_error and not 0 <= unended <= silent:
        lines.append(f"{story.event} was told as {dict(phases)}")
    return lines


def _about(story: Story, one: Notification) -> str:
    data = one.payload.get("nova_object.data", one.payload)
    return data["uuid" if story.about == "server_id" else story.about]
