"""What keeps the tables of the fleet from growing without end."""

from __future__ import annotations

from mooring.fleet.tables import AuthorityRow, HostRow
from mooring.store.growth import Bound

BOUNDS: tuple[Bound[object], ...] = (
    Bound(AuthorityRow, "one"),
    Bound(HostRow, "`FLEET_HOSTS`"),
)
