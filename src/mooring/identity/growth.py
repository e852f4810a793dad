"""What keeps the tables of the identity service from growing without end."""

from __future__ import annotations

from mooring.identity.service import Identity
from mooring.identity.tables import (
    ApplicationCredentialRow,
    DomainRow,
    EndpointRow,
    GrantRow,
    GroupGrantRow,
    GroupRow,
    ImplicationRow,
    LimitRow,
    MemberRow,
    ProjectRow,
    RegionRow,
    RegisteredLimitRow,
    RevocationRow,
    RoleRow,
    SecretRow,
    ServiceRow,
    UserRow,
)
from mooring.store.growth import Aged, Bound

_MADE = "made by administrators alone"
BOUNDS: tuple[Bound[Identity], ...] = (
    *(
        Bound[Identity](row, _MADE)
        for row in (
            *(DomainRow, ProjectRow, UserRow, RoleRow, ImplicationRow, GrantRow),
            *(GroupRow, MemberRow, GroupGrantRow),
            *(RegionRow, ServiceRow, EndpointRow),
            *(RegisteredLimitRow, LimitRow),
        )
    ),
    Bound(SecretRow, "one for each user of a service, and the keys of tokens"),
    Bound(ApplicationCredentialRow, "with their user, who alone makes them"),
    Bound(
        RevocationRow,
        "until tokens would be worth nothing anyway; one for each login, and each role taken",
        Aged[Identity](RevocationRow, "forget_at", 0.0, most=0, least_s=0.0),
    ),
)
