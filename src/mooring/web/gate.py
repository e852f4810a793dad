"""Who may come in: services ask for tokens and policy, an agent trusts whoever reached it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from mooring.errors import Forbidden
from mooring.fence import operation as operations
from mooring.web.identity import is_service, who_from_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.datastructures import Headers

    from mooring.fence.operation import Operation
    from mooring.web.api import Target
    from mooring.web.identity import TokenValidator
    from mooring.web.policy import Policy
    from mooring.who import Who


class Gate(Protocol):
    """What an application asks about each request."""

    async def let_in(self, headers: Headers, request_id: str) -> Who:
        """Return the caller. Raises Unauthenticated, Forbidden without a project."""
        ...

    def asked_by(self, who: Who) -> Callable[[str, Target], bool]:
        """Return what tells whether the caller may do a rule to a target."""
        ...

    def operation(self, headers: Headers, who: Who) -> Operation | None:
        """Return the operation that the caller acts for, if it may name one. Raises Invalid."""
        ...


class TokenGate:
    """The gate of a service: tokens say who comes, policy says what each may do."""

    def __init__(
        self, validator: TokenValidator, policy: Policy, *, is_for_projects: bool = False
    ) -> None:
        self._validator, self._policy = validator, policy
        self._is_for_projects = is_for_projects

    async def let_in(self, headers: Headers, request_id: str) -> Who:
        who = await who_from_request(headers, self._validator, request_id)
        is_admin = self._policy.allows(who, "context_is_admin", {})
        if self._is_for_projects and not (who.project_id or is_admin or is_service(who)):
            # What such tokens made would belong to no project, and so to all of them.
            raise Forbidden(
                "This token is for a domain, the system or nothing, and what is asked for belongs "
                "to projects. Ask for a token for a project."
            )
        return who if is_admin == who.is_admin else replace(who, is_admin=is_admin)

    def asked_by(self, who: Who) -> Callable[[str, Target], bool]:
        return self._policy.asked_by(who)

    def operation(self, headers: Headers, who: Who) -> Operation | None:
        # Only services have operations: a user who learned a key could end somebody's call.
        header = headers.get(operations.HEADER)
        return operations.parse(header) if header and is_service(who) else None
