"""Where a server's console is opened, and for administrators what a token is good for.

Source: facts/compute.md 1.4 and 2.6, facts/network.md 8. Serial consoles are the ones there are.
"""

from __future__ import annotations

from typing import Literal
from urllib.parse import quote, urlsplit, urlunsplit

from msgspec import Struct

from mooring.compute.consoles import consoles
from mooring.compute.consoles.api.serial_door import PATH as DOOR
from mooring.compute.service import Compute
from mooring.errors import Invalid
from mooring.web.api import Api, Call, Reply

api = Api[Compute]()
_RULE = "os_compute_api:os-remote-consoles"
_TYPES = {
    "vnc": ("novnc", "xvpvnc"),
    "spice": ("spice-html5", "spice-direct"),
    "rdp": ("rdp-html5",),
    "serial": ("serial",),
    "mks": ("webmks",),
}
"""What upstream knows of each protocol."""
_SINCE = {"mks": (2, 8), "webmks": (2, 8), "spice-direct": (2, 99)}


class RemoteConsole(Struct, frozen=True, forbid_unknown_fields=True):
    """Which console is wanted."""

    protocol: Literal["vnc", "spice", "rdp", "serial", "mks"]
    type: Literal["novnc", "xvpvnc", "spice-html5", "spice-direct", "rdp-html5", "serial", "webmks"]


class SerialConsole(Struct, frozen=True, forbid_unknown_fields=True):
    """The value of `os-getSerialConsole`."""

    type: Literal["serial"]


@api.post(
    "/servers/{server_id}/remote-consoles",
    RemoteConsole,
    key="remote_console",
    policy=_RULE,
    since=(2, 6),
)
async def create_remote_console(call: Call[Compute], body: RemoteConsole) -> Reply:
    """Make a URL by which a server's serial console is opened."""
    for word in (body.protocol, body.type):
        if call.version < _SINCE.get(word, (2, 6)):
            raise Invalid(f"Invalid input: '{word}' is no console of this microversion.")
    if body.type not in _TYPES[body.protocol]:
        raise Invalid(f"Invalid input: '{body.type}' is no console of protocol {body.protocol}.")
    if body.protocol != "serial":
        await consoles.require_visible(call.service, call.who, call.path["server_id"])
        raise Invalid(
            f"Consoles of type {body.type} are not built in this cloud. Nothing was changed; ask "
            "for protocol serial, type serial.",
            status=501,
        )
    console = {"protocol": "serial", "type": "serial", "url": await _url(call)}
    return Reply(200, {"remote_console": console})


@api.action(
    "/servers/{server_id}/action",
    "os-getSerialConsole",
    SerialConsole,
    policy=_RULE,
    until=(2, 5),
)
async def get_serial_console(call: Call[Compute], body: SerialConsole) -> Reply:
    """Make the same, for clients of before 2.6."""
    return Reply(200, {"console": {"type": body.type, "url": await _url(call)}})


@api.get(
    "/os-console-auth-tokens/{token}",
    policy="os_compute_api:os-console-auth-tokens",
    since=(2, 31),
)
async def show_console_token(call: Call[Compute]) -> Reply:
    """Show what a token is good for.

    There is no port to connect to: the agent of the host has the guest's own.
    """
    found = await consoles.find(call.service, call.path["token"])
    console = {
        "instance_uuid": found.server_id,
        "host": found.host,
        "port": None,
        "internal_access_path": None,
    }
    if call.version >= (2, 99):
        console["tls_port"] = None
    return Reply(200, {"console": console})


async def _url(call: Call[Compute]) -> str:
    """Return where a browser, or another client of websockets, opens the console."""
    token = await consoles.grant(call.service, call.who, call.path["server_id"])
    root = urlsplit(call.bookmark("").removesuffix("/compute"))
    scheme = {"http": "ws", "https": "wss"}[root.scheme]
    place = root._replace(scheme=scheme, path=root.path + DOOR, query=f"token={quote(token)}")
    return urlunsplit(place)
