"""Who asks: the identity behind a request, as the token proved it."""

from __future__ import annotations

from msgspec import Struct


class Who(Struct, frozen=True, kw_only=True):
    """One authenticated caller.

    `token` is what it sent; `service_roles` come from its X-Service-Token.
    """

    user_id: str
    user_name: str = ""
    user_domain_id: str = "default"
    project_id: str = ""
    project_name: str = ""
    project_domain_id: str = "default"
    domain_id: str = ""
    """Of a token for a domain; empty in one for a project."""
    system_scope: str = ""
    roles: frozenset[str] = frozenset()
    service_roles: frozenset[str] = frozenset()
    service_user_id: str = ""
    is_admin: bool = False
    token: str = ""
    request_id: str = ""

    @property
    def is_service(self) -> bool:
        """Whether a valid service token with the role `service` came beside the caller's own."""
        return "service" in self.service_roles
