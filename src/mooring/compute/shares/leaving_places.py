"""Places of shares whose rules are being denied: changed while nobody was let in there again.

Between a look at the share service and what is noted of it another operation may have given the
server the share at the same host, by another rule. All mappings of the share are locked here, as
wherever it is decided who relies on a rule (`doors`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.compute.shares import mappings, share_places
from mooring.compute.shares.share_places import REVOKING
from mooring.saga.ownership import require_lease

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.compute.shares.folders import Folder
    from mooring.compute.shares.share_places import Place
    from mooring.saga.define import Run


def forget(tx: Session, run: Run[Compute], folder: Folder, seen: Place) -> bool:
    """Forget a place whose rule was seen to be gone; False when it is to go with another one.

    Another operation may have let the server in there again since it was `seen`: that place stays.
    """
    place = lock(tx, run, folder)
    if place is None or place.state != seen.state:
        return True
    if not _is_same(place, seen):
        return False
    share_places.remove(tx, folder.mapping_id, folder.host)
    return True


def change(
    tx: Session, run: Run[Compute], folder: Folder, seen: Place, values: dict[str, str | int]
) -> None:
    """Change a place whose rule is being denied, unless the server was let in there again."""
    place = lock(tx, run, folder)
    if place is not None and place.state == REVOKING and _is_same(place, seen):
        share_places.change(tx, folder.mapping_id, folder.host, run.now(), **values)


def release_of(folder: Folder) -> str:
    """Return the key that the release of a share from a host holds (`sagas.release_share`)."""
    return f"release-share:{folder.mapping_id}@{folder.host}"


def is_leaving(tx: Session, compute: Compute, folder: Folder) -> bool:
    """Whether a host still has to let go of a share that a server had there before."""
    return bool(compute.sagas.holders(tx, release_of(folder)))


def lock(tx: Session, run: Run[Compute], folder: Folder) -> Place | None:
    """Return a place as it is until this transaction ends."""
    require_lease(tx, run)
    mappings.of_share(tx, folder.share_id)
    return share_places.find(tx, folder.mapping_id, folder.host)


def _is_same(place: Place, seen: Place) -> bool:
    return (place.access_to, place.rule_id) == (seen.access_to, seen.rule_id)
