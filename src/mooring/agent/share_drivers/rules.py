"""Which rule speaks for a client."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address, ip_network

from mooring.agent_api.shares import AccessLevel


def find_level(networks: Mapping[str, AccessLevel], address: str) -> AccessLevel | None:
    """Return how a client of an address gets in, None when no network has it.

    Of networks that overlap the narrowest says how.
    """
    client = ip_address(address)
    near = [(ip_network(to).prefixlen, to) for to in networks if client in ip_network(to)]
    return networks[max(near)[1]] if near else None
