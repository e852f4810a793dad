"""Hosts that joined some cloud, and the processes of theirs and of the control plane."""

from __future__ import annotations

import itertools
import os
import socket
from datetime import UTC, datetime
from pathlib import Path

from mooring import certificates
from mooring.agent import membership
from mooring.agent.membership import Membership
from mooring.agent_api.joining import Role
from mooring.certificates import Held
from tests.kill.processes import ForkedProcess

DAY_S = 86400.0
BOTH: tuple[Role, ...] = ("compute", "volume")
_counter = itertools.count()


def now() -> datetime:
    return datetime.now(UTC)


def free_port() -> int:
    """A port that stays free while its owner is restarted: no connection gets it by itself."""
    while True:
        port = 20000 + (os.getpid() * 16 + next(_counter)) % 12000
        with socket.socket() as trying:
            try:
                trying.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def certify(
    authority: Held, name: str, enrolment: str, *, at: datetime | None = None
) -> tuple[bytes, bytes]:
    """Certificate and key of a host."""
    key = certificates.new_key()
    wish = certificates.read_request(certificates.make_request(key, name))
    made = certificates.sign_host(
        authority, wish, enrolment, "127.0.0.1", now=at or now(), lifetime_s=DAY_S
    )
    return made, key


def lay_member(
    directory: Path,
    authority: Held,
    name: str = "host-1",
    enrolment: str = "e1",
    *,
    at: datetime | None = None,
) -> Membership:
    """Let a directory be that of a host that joined."""
    directory.mkdir(parents=True, exist_ok=True)
    certificate, key = certify(authority, name, enrolment, at=at)
    member = Membership(
        name=name,
        roles=list(BOTH),
        address="127.0.0.1:0",
        token="",
        authority=authority.authority.decode(),
        certificate=certificate.decode(),
        key=key.decode(),
    )
    membership.write(directory, member)
    return member


def start_agent(directory: Path, *arguments: str, kill_at: str = "") -> ForkedProcess:
    """Start `mooring agent` as its operator does; `ready` says where it serves."""
    where = ("--state-dir", str(directory), "--hypervisor", "simulated")
    log = directory.with_suffix(".log")
    return ForkedProcess("agent", *where, *arguments, log=log, kill_at=kill_at)
