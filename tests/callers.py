"""Who calls in the tests of one service: tokens known by a name, and services' own sessions."""

from __future__ import annotations

from datetime import UTC, datetime

from mooring.clients.catalog import FixedCatalog
from mooring.clients.session import Session
from mooring.clients.token import TokenInfo
from mooring.clients.transport import Network
from mooring.cloud import Keystone
from mooring.errors import Unauthenticated

PROJECT = "0123456789abcdef0123456789abcdef"
OTHER_PROJECT = "fedcba9876543210fedcba9876543210"
FAR = datetime(2100, 1, 1, tzinfo=UTC)
_ROLES = {
    "reader": {"reader"},
    "member": {"member", "reader"},
    "manager": {"manager", "member", "reader"},
    "stranger": {"member", "reader"},
    "domain": {"member", "reader"},
    "admin": {"admin", "member", "reader"},
    "volume": {"admin", "service"},
    "compute": {"admin", "service"},
    "service": {"service"},
}
_PROJECTS = {"stranger": OTHER_PROJECT, "service": OTHER_PROJECT, "domain": ""}


class Tokens:
    """A validator that knows a few tokens by name: `<user>` or `expired-<user>`.

    `stranger` is a member of another project, and `domain` one of a domain, whose token is for no
    project; `volume` and `compute` are services, and `service` is one that may do nothing else.
    """

    def __init__(self) -> None:
        self.known = {
            name: TokenInfo(
                user_id=name,
                project_id=_PROJECTS.get(name, PROJECT),
                domain_id="default" if name == "domain" else "",
                roles=frozenset(roles),
                expires_at=FAR,
            )
            for name, roles in _ROLES.items()
        }

    async def validate(self, token: str, *, allow_expired: bool = False) -> TokenInfo:
        name = token.removeprefix("expired-")
        if name not in self.known or (name != token and not allow_expired):
            raise Unauthenticated("The request you have made requires authentication.")
        return self.known[name]


class OwnToken:
    """A service user's token, which never ends."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def token(self, *, instead_of: str = "") -> str:
        return self._name

    async def user_id(self) -> str:
        return self._name


def session(network: Network, service: str, url: str, *, own: str = "volume") -> Session:
    """Return the session of the service user `own` with a service, which is at `url`."""
    catalog = FixedCatalog({service: url})
    return Session(network, service=service, catalog=catalog, credentials=OwnToken(own))


def keystone(network: Network, root: str) -> Keystone:
    """Stand in for identity in a cloud at `root`: services' users have their names for tokens."""
    return Keystone(
        Tokens(), lambda caller, other: session(network, other, f"{root}/{other}", own=caller)
    )
