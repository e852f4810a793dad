"""What befell a cloud, for whoever reads why a history failed."""

from __future__ import annotations

from sqlalchemy import select

from mooring.saga.tables import SagaRow
from tests.laws.sites import Trial


def note_death(trial: Trial) -> None:
    """Note that processes died at the point that was passed last, and come back."""
    who = "control plane and agents" if trial.takes_hosts_along else "control plane"
    now, point = trial.cloud.clock.now(), trial.probe.passed[-1]
    trial.site.diary.append(f"{now:%H:%M:%S.%f} {who} died at {point}")


async def tell(trial: Trial) -> str:
    """Return all that was asked for, and how each operation ended, by service."""
    told = ["What was asked for:", *trial.site.diary, "The operations:"]
    begun = select(SagaRow).order_by(SagaRow.created_at)
    for store in trial.cloud.cloud.stores.values():
        told += await store.read(lambda tx: [_describe(row) for row in tx.scalars(begun)])
    return "\n".join(told)


def _describe(row: SagaRow) -> str:
    end = row.outcome or f"{row.state} {row.heading} at {row.step}"
    span = f"{row.created_at:%H:%M:%S.%f} {row.updated_at:%H:%M:%S.%f}"
    return f"{span} {row.name} {row.id} {end} {row.notes} {row.error or ''} {row.undo_error or ''}"
