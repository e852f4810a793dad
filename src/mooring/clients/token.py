"""What a token says, and who can tell: our own identity service, or the one in the catalogue."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from msgspec import Struct


class TokenInfo(Struct, frozen=True, kw_only=True):
    """A valid token, read against live data. Source: facts/identity_image_placement.md 2.2."""

    user_id: str
    user_name: str = ""
    user_domain_id: str = "default"
    project_id: str = ""
    project_name: str = ""
    project_domain_id: str = "default"
    domain_id: str = ""
    system_scope: str = ""
    roles: frozenset[str] = frozenset()
    """Names, in lower case, implied ones included."""
    methods: tuple[str, ...] = ()
    audit_ids: tuple[str, ...] = ()
    application_credential_id: str = ""
    issued_at: datetime | None = None
    expires_at: datetime


class TokenValidator(Protocol):
    """Tells who a token stands for."""

    async def validate(self, token: str, *, allow_expired: bool = False) -> TokenInfo:
        """Return what the token says now.

        `allow_expired` accepts one that ended less than two days ago. Raises Unauthenticated when
        it is not valid, Unavailable when nobody can tell.
        """
        ...
