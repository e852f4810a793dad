"""`mooring agent`: one host's agent as a process of its own."""

from __future__ import annotations

import asyncio
import platform
import socket
from contextlib import ExitStack
from ipaddress import ip_address
from typing import TYPE_CHECKING

from msgspec import Struct

from mooring import sockets
from mooring.agent import membership
from mooring.agent.app import hold
from mooring.agent.main import serve, serve_afar
from mooring.agent.settings import AgentSettings
from mooring.agent.storage_file import read_storage
from mooring.agent_api.joining import JoinToken, check_name, read_token
from mooring.errors import Invalid
from mooring.probe import from_setting

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mooring.agent.app import RunningAgent
    from mooring.agent.membership import Membership
    from mooring.agent.settings import Role
    from mooring.config import Settings
    from mooring.probe import Probe

_LISTEN = "0.0.0.0:8471"
BOTH: tuple[Role, ...] = ("compute", "volume")
ROLES: dict[str, tuple[Role, ...]] = {
    "compute": ("compute",),
    "volume": ("volume",),
    "share": ("share",),
    "both": BOTH,
    "all": (*BOTH, "share"),
}
"""What a host does, by the word that the command line has for it."""


class Way(Struct, frozen=True, kw_only=True):
    """How an agent is reached: by a Unix socket under a name, or as a host that has joined."""

    name: str = ""
    socket_path: Path | None = None
    token: str = ""
    listen: str = ""
    roles: tuple[Role, ...] = ()
    """By a Unix socket; empty is both. A host that joins has those of its invitation."""


async def run_agent(settings: Settings, way: Way, say: Callable[[str], None]) -> None:
    """Serve one host until a signal ends it; its guests go on.

    Raises Invalid for ways that contradict each other and for a name that no host can have, before
    anything is made, and as `serve` and `enter` do.
    """
    probe = from_setting(settings.kill_at)
    if way.socket_path is None:
        if way.roles:
            raise Invalid("The role of a host that joins is said to `mooring host add --role`.")
        await _run_member(settings, way, probe, say)
        return
    if way.token or way.listen or not way.name:
        raise Invalid(
            "An agent has a --socket and a --name, or it joins a cloud: give --join alone."
        )
    _check_name(way.name)
    wanted = _wanted(settings, way.name, roles=way.roles or BOTH)
    await serve(wanted, way.socket_path, probe=probe, ready=_ready(str(way.socket_path), say))


def _check_name(name: str) -> None:
    """Raise Invalid for a name that no host can have, unless it is one that `mooring up` gives.

    Those begin with the machine's own, which may be one that nobody would choose.
    """
    machine = platform.node()
    stem, _, number = name.rpartition("-")
    if name != machine and not (stem == machine and number.isdecimal()):
        check_name(name)


async def _run_member(
    settings: Settings, way: Way, probe: Probe, say: Callable[[str], None]
) -> None:
    """Serve as the host that this one is, after it has joined if it has a token."""
    state_dir = settings.state_path
    known = await asyncio.to_thread(membership.read, state_dir)
    token = read_token(way.token) if way.token else None
    if known is None and token is None:
        raise Invalid(
            f"No host has joined with {state_dir}. Give --join TOKEN, which `mooring host add` "
            "prints, or --socket and --name for an agent of the control plane's own machine."
        )
    name = token.host if token else known.name if known else ""
    if way.name not in {"", name}:
        raise Invalid(f"This is host {name}, not {way.name}. Leave --name out.")
    listen = way.listen or (known.address if known else _LISTEN)
    address, port = _split(listen)
    listening = sockets.open_listener(address, port, given_by="--address ADDR:PORT")
    try:
        member = known
        if token is not None:
            reached = await asyncio.to_thread(_reached_at, listening, token)
            if known is not None:
                membership.check_same(state_dir, known, token)
            with ExitStack() as stack:
                # One that runs there would go on as who it was, and the cloud would not know it.
                hold(state_dir, stack)
                member = await membership.enter(state_dir, token, reached, probe)
        if member is not None:
            await _serve_member(settings, member, listening, probe, say)
    finally:
        listening.close()


async def _serve_member(
    settings: Settings,
    member: Membership,
    listening: socket.socket,
    probe: Probe,
    say: Callable[[str], None],
) -> None:
    ip, _ = _split(member.address)
    wanted = _wanted(settings, member.name, roles=tuple(member.roles), ip=ip)
    ready = _ready(f"{ip}:{listening.getsockname()[1]}", say)
    await serve_afar(wanted, listening, member, probe=probe, ready=ready)


def _wanted(
    settings: Settings,
    name: str,
    *,
    roles: tuple[Role, ...],
    ip: str = "127.0.0.1",
) -> AgentSettings:
    storage = read_storage(settings.storage)
    return AgentSettings(
        name=name,
        state_dir=settings.state_path,
        hypervisor=settings.hypervisor,
        roles=roles,
        pools=storage.pools,
        share_pools=storage.share_pools,
        mounts=storage.mounts,
        ip=ip,
        move_address=settings.move_address,
        move_tls=settings.move_tls,
        emulator_user=settings.emulator_user,
        copy_listen=settings.copy_listen,
        copy_mib_per_s=settings.copy_mib_per_s,
        image_reserve_mib=settings.image_reserve_mib,
    )


def _ready(place: str, say: Callable[[str], None]) -> Callable[[RunningAgent], None]:
    def ready(running: RunningAgent) -> None:
        say(f"ready {place}" + (f" ({running.notice})" if running.notice else ""))

    return ready


def _split(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and int(port) <= sockets.LAST_PORT):
        raise Invalid(
            f"'{listen}' is no ADDRESS:PORT to listen on. {sockets.LISTENING_PORTS}. Nothing was "
            "made; give --address another one."
        )
    return host.strip("[]"), int(port)


def _reached_at(listening: socket.socket, token: JoinToken) -> str:
    """Return where others reach a socket: on every address, that from which the cloud is seen."""
    address, port = listening.getsockname()[:2]
    if ip_address(address).is_unspecified:
        cloud, cloud_port = _split(token.address)
        # Nothing is sent: a datagram socket that is connected knows its own address.
        with socket.socket(listening.family, socket.SOCK_DGRAM) as looking:
            looking.connect((cloud, cloud_port))
            address = looking.getsockname()[0]
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
