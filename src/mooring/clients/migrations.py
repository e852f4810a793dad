"""Volumes that the volume service migrates under a guest: what compute tells it of them.

Source: facts/block_storage.md 1.6, facts/compute.md 4.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from mooring import typed
from mooring.errors import Invalid

if TYPE_CHECKING:
    from mooring.clients.session import Caller
    from mooring.clients.volume import Volume, VolumeClient
    from mooring.fence.operation import Operation

_MIGRATING = "migrating"


class _Completed(Struct, frozen=True):
    save_volume_id: str


def is_migrated_to(old: Volume, new: Volume) -> bool:
    """Whether the volume service has made one volume to take the place of the other."""
    return (old.migration_status, new.migration_status) == (_MIGRATING, f"target:{old.id}")


async def complete(
    volumes: VolumeClient,
    caller: Caller,
    ids: tuple[str, str],
    *,
    error: bool,
    operation: Operation | None = None,
) -> str:
    """Tell how it went to let a guest go on with the second volume; return the id that stays.

    With `error` the guest has the first one. Raises NotFound, Invalid where nobody waits for that.
    """
    old_id, new_id = ids
    arguments = {"new_volume": new_id, "error": error}
    answer = await volumes.act(
        caller, old_id, "os-migrate_volume_completion", arguments, operation=operation
    )
    try:
        return typed.convert(answer, _Completed).save_volume_id
    except msgspec.ValidationError as failure:
        said = f"The volume service did not say what volume {old_id} is called from now on."
        raise Invalid(said, private=str(failure)) from failure
