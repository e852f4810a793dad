"""From the tokens of a request to the one who asks.

Source: facts/identity_image_placement.md 3.2 and 3.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.clients.token import TokenInfo, TokenValidator
from mooring.errors import Unauthenticated
from mooring.who import Who

if TYPE_CHECKING:
    from starlette.datastructures import Headers

__all__ = [
    "NOBODY",
    "SERVICE_ROLE",
    "TokenInfo",
    "TokenValidator",
    "is_service",
    "who_from_request",
]

SERVICE_ROLE = "service"
NOBODY = Who(user_id="")
"""The caller of a route that needs no token."""

_REQUIRED = "The request you have made requires authentication."


async def who_from_request(headers: Headers, validator: TokenValidator, request_id: str) -> Who:
    """Return the caller that `X-Auth-Token` names, with the roles of a valid `X-Service-Token`.

    A user's token that has expired is good as long as a service vouches for it. A service token
    that is not valid, or whose user has no role `service`, spoils the request: it is never ignored,
    or a user could pass for a service by sending any token twice. Raises Unauthenticated.
    """
    token = headers.get("x-auth-token", "")
    if not token:
        raise Unauthenticated(_REQUIRED)
    service = await _service(headers.get("x-service-token", ""), validator)
    info = await validator.validate(token, allow_expired=service is not None)
    return Who(
        user_id=info.user_id,
        user_name=info.user_name,
        user_domain_id=info.user_domain_id,
        project_id=info.project_id,
        project_name=info.project_name,
        project_domain_id=info.project_domain_id,
        domain_id=info.domain_id,
        system_scope=info.system_scope,
        roles=info.roles,
        service_roles=service.roles if service else frozenset(),
        service_user_id=service.user_id if service else "",
        is_admin="admin" in info.roles,
        token=token,
        request_id=request_id,
    )


def is_service(who: Who) -> bool:
    """Tell whether a service asks, for itself or with a user's token beside its own."""
    return who.is_service or SERVICE_ROLE in who.roles


async def _service(token: str, validator: TokenValidator) -> TokenInfo | None:
    if not token:
        return None
    info = await validator.validate(token)
    if SERVICE_ROLE not in info.roles:
        raise Unauthenticated(_REQUIRED, private=f"X-Service-Token of user {info.user_id}")
    return info
