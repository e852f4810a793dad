"""Whom an access rule may name, and when two rules name the same.

Source: facts/shared_file_systems.md 4.1 and 4.3.
"""

from __future__ import annotations

import ipaddress
import re

from mooring.errors import Invalid

TYPES = ("ip", "user", "cert", "cephx")
_ACCOUNT = re.compile(r'[^"/\\\[\]:;|=,+*?<>@]{4,255}')
_IDENTITY = re.compile(r"[\x21-\x2d\x2f-\x7e][\x20-\x2d\x2f-\x7e]*")
"""Printable ASCII without a dot."""
_OF_HOSTS = "mooring-"
"""What the compute service's cephx ids begin with; a project's id follows."""


def check(access_type: str, access_to: str, *, takes_cephx: bool, takes_v6: bool) -> str:
    """Return what tells a client from others of its type. Raises Invalid for none.

    Whether a rule may let every address in is for the pool to say.
    """
    known = [name for name in TYPES if name != "cephx" or takes_cephx]
    if access_type not in known:
        raise Invalid(
            f"Invalid input received: Only {', '.join(known)} access types are supported, not "
            f"'{access_type[:64]}'. Nothing was changed.",
        )
    if access_type == "ip":
        return _check_network(access_to, takes_v6=takes_v6)
    client = access_to.strip() if access_type == "cert" else access_to
    good = {
        "user": bool(_ACCOUNT.fullmatch(client)) and bool(client.strip(". ")),
        "cert": 0 < len(client) <= 64,
        "cephx": bool(_IDENTITY.fullmatch(client)) and len(client) <= 255,
    }
    if not good[access_type]:
        raise _refuse(access_to, f"a client of type {access_type}")
    return client


def check_project(access_type: str, client: str, project_id: str) -> None:
    """Raise Invalid for the cephx id by which hosts of servers mount another project's shares.

    A storage knows each id in one project; taken here, it would let no server have shares there.
    """
    is_of_hosts = access_type == "cephx" and client.startswith(_OF_HOSTS)
    if is_of_hosts and client != f"{_OF_HOSTS}{project_id}":
        raise _refuse(client, f"a client of this project; others do not begin with {_OF_HOSTS}")


def _check_network(text: str, *, takes_v6: bool) -> str:
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        raise _refuse(text, "an address or a network whose host bits are zero") from error
    if "%" in text:
        # Which link it is on means something to the client's machine alone.
        raise _refuse(text, "an address or a network without a zone")
    if network.version == 6 and not takes_v6:
        raise _refuse(text, "an IPv4 address or network; IPv6 needs microversion 2.38")
    return str(network)


def _refuse(text: str, wanted: str) -> Invalid:
    return Invalid(
        f"Invalid input received: '{text[:255]}' is not {wanted}. Nothing was changed.",
    )
