"""One transaction behind the fence: it acts once for each operation, and never after its undo."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlalchemy.orm import Session

from mooring.fence import table as fence
from mooring.fence.table import Answer, Verb

if TYPE_CHECKING:
    from mooring.volume.attachments.reserving import Asked


async def change(
    asked: Asked, resource: str, act: Callable[[Session], None], *, verb: Verb
) -> None:
    """Run a transaction, unless the same operation has run it before. Raises Gone, Outdated."""

    def admitted(tx: Session) -> None:
        if fence.admit(tx, asked.operation, resource, verb=verb) is not None:
            return
        act(tx)
        fence.record(tx, asked.operation, resource, Answer(), verb=verb)

    await asked.volume.store.write(admitted)
