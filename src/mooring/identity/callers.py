"""Who shows a password or a secret, and how often he may guess."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mooring import limits
from mooring.errors import Unauthenticated
from mooring.identity.standing import INVALID

if TYPE_CHECKING:
    from mooring.identity.service import Identity
    from mooring.web.api import Call

_IPV6_NETWORK_BITS = 64
"""What a provider gives to one customer at least: he chooses the other half of each address."""


class Caller(Struct, frozen=True):
    """From where a request comes, and whether its sender still waits for the answer.

    `address` is an IPv4 address, an IPv6 network, or a name that a proxy gave.
    """

    address: str
    has_left: Callable[[], Awaitable[bool]]

    @classmethod
    def of(cls, call: Call[Any]) -> Caller:
        """Return whose request a handler answers."""
        client = call.request.client
        return cls(neighbourhood(client.host if client else ""), call.request.is_disconnected)


async def prove(
    identity: Identity, who: str, secret: str, hashed: str | None, caller: Caller
) -> bool:
    """Tell whether a secret is the one that was hashed. `who` is all else that was shown.

    Raises Unauthenticated, answered 429, for whoever failed too often a moment ago; Unauthenticated
    for whoever has left before his turn came; Unavailable when too many wait for theirs.
    """

    async def admit() -> None:
        identity.failures.check(caller.address, who, identity.clock.now())
        if await caller.has_left():
            raise Unauthenticated(INVALID, private="the caller left before his turn came")

    identity.failures.check(caller.address, who, identity.clock.now())
    if len(secret) > limits.IDENTITY_PASSWORD_CHARS:
        return False  # Nobody has such a secret: it is no guess, and costs nothing to refuse.
    right = await identity.hasher.check(secret, hashed, address=caller.address, admit=admit)
    if right:
        identity.failures.forget(caller.address, who)
    else:
        identity.failures.note(caller.address, who, identity.clock.now())
    return right


def neighbourhood(host: str) -> str:
    """Return the addresses that one caller may have at will, as one: of IPv6 all of a network."""
    try:
        address = ip_address(host)
    except ValueError:
        return host  # A name that a server in front of this one gave, or none.
    if isinstance(address, IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ip_network((address.packed, _IPV6_NETWORK_BITS), strict=False))
