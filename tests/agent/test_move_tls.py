"""Guests of a host that joined move over TLS unless its operator says otherwise.

A listener with certificates stands for libvirt's daemon. Real ones: tests/hosts/.
"""

from __future__ import annotations

import asyncio
import os
import pwd
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring import certificates
from mooring.agent import move_daemon, seclusion
from mooring.agent.app import RunningAgent
from mooring.agent.certificate import Credentials
from mooring.agent.move_daemon import check_daemon
from mooring.agent.move_identity import MoveIdentity
from mooring.agent.settings import AgentSettings
from mooring.agent_api.certificates import MoveCertificates
from mooring.agent_api.moves import Portrait
from mooring.certificates import Held
from mooring.errors import Conflict
from tests.agent.hosts import TestHost, new_id, open_host, operation
from tests.fleet.members import DAY_S, free_port, lay_member, now

pytestmark = pytest.mark.anyio
HERE = "127.0.0.1"
PORTRAIT = Portrait(hypervisor="simulated", accelerator="simulated", version=1_000_000)


@pytest.fixture
async def host(tmp_path: Path) -> AsyncGenerator[tuple[TestHost, RunningAgent]]:
    async with open_host(tmp_path / "host-1") as opened:
        yield opened


@pytest.fixture(autouse=True)
def port(monkeypatch: pytest.MonkeyPatch) -> int:
    """Where the daemon of this machine would be: nowhere, until a test has one there."""
    found = free_port()
    monkeypatch.setattr(move_daemon, "PORT", found)
    return found


def let_join(running: RunningAgent) -> None:
    directory = running.agent.settings.state_dir
    member = lay_member(directory, certificates.make_authority(now()))
    context = certificates.server_context(member.held, asks_callers=True)
    running.agent.credentials = Credentials(directory, member, context)


def sign(authority: Held, wish: str) -> MoveCertificates:
    """Return what the control plane would bring."""
    asked = certificates.read_request(wish.encode())
    server, client = (
        certificates.sign_for_moves(
            authority, asked, "e1", HERE, asks=asks, now=now(), lifetime_s=DAY_S
        ).decode()
        for asks in (False, True)
    )
    return MoveCertificates(authority.certificate.decode(), server, client)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_emulators_read_their_certificates_as_whom_the_daemon_runs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = next(one for one in pwd.getpwall() if one.pw_gid not in {0, _usual_group()})
    monkeypatch.setattr(seclusion, "emulator", lambda: user.pw_name)
    identity = MoveIdentity(AgentSettings(name="host-1", state_dir=tmp_path))
    identity.take(sign(certificates.make_authority(now()), identity.show().wish))
    directory = identity.directory.resolve()
    found = {path.name: path.stat() for path in (directory, *directory.iterdir())}
    assert {one.st_gid for one in found.values()} == {user.pw_gid}
    assert {one.st_mode & 0o777 for one in found.values()} == {0o750, 0o640}


def _usual_group() -> int:
    return next((one.pw_gid for one in pwd.getpwall() if one.pw_name == seclusion.EMULATOR), -1)


@pytest.mark.parametrize("setting", [None, True, False])
@pytest.mark.parametrize("simulated", [False, True], ids=["real", "simulated"])
@pytest.mark.parametrize("joined", [True, False], ids=["joined", "near"])
async def test_guests_are_encrypted_where_the_host_joined_or_its_setting_says_so(
    host: tuple[TestHost, RunningAgent], *, joined: bool, simulated: bool, setting: bool | None
) -> None:
    tester, running = host
    running.agent.connections.is_simulated = simulated
    running.agent.settings = replace(running.agent.settings, move_tls=setting)
    if joined:
        let_join(running)
    shown = await tester.client.move_certificates()
    is_risky = joined and not simulated
    assert shown.is_wanted == (is_risky if setting is None else setting)
    assert shown.in_the_clear == (is_risky and setting is False)
    assert bool(shown.wish) == shown.is_wanted


async def test_a_guest_is_neither_sent_nor_expected_without_what_it_goes_with(
    host: tuple[TestHost, RunningAgent],
) -> None:
    """A host of a release before has no certificates, and a daemon that was told of none."""
    tester, running = host
    there, server_id = new_id(), new_id()
    await tester.boot(server_id)
    let_join(running)
    running.agent.connections.is_simulated = False
    for refused in (
        tester.client.show_portrait(server_id),
        tester.client.put_arrival(there, PORTRAIT, operation=operation()),
    ):
        with pytest.raises(Conflict, match="no certificate for moves"):
            await refused
    authority = certificates.make_authority(now(), certificates.MOVES)
    shown = await tester.client.move_certificates()
    await tester.client.put_move_certificates(sign(authority, shown.wish))
    assert (await tester.client.show_portrait(server_id)).hypervisor == "simulated"
    with pytest.raises(Conflict, match=r"daemon does not answer .*move_tls = false"):
        await tester.client.put_arrival(there, PORTRAIT, operation=operation())
    guest = await tester.client.show_server(server_id)
    assert guest is not None
    assert guest.state == "running"
    assert await tester.client.show_server(there) is None


@asynccontextmanager
async def daemon(port: int, shown: Held | None, first: bytes) -> AsyncGenerator[None]:
    """Listen as a daemon does, over TLS if it shows something; say `first` to who comes in."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        writer.close()

    context = certificates.server_context(shown, asks_callers=True) if shown else None
    listening = await asyncio.start_server(answer, HERE, port, ssl=context)
    async with listening:
        yield


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("ours", ""),
        ("turns us away", "turns away"),
        ("shows nothing", r"SSL|reset|EOF"),
        ("of another cloud", "certificate verify failed"),
        ("of another address", "certificate is not valid for"),
        ("nobody", "refused"),
    ],
)
async def test_a_daemon_has_to_show_the_certificate_of_its_host(
    case: str, reason: str, tmp_path: Path, port: int
) -> None:
    async with open_host(tmp_path / "host-1") as (_, running):
        identity = MoveIdentity(running.agent.settings)
        authority = certificates.make_authority(now(), certificates.MOVES)
        given = sign(authority, identity.show().wish)
        identity.take(given)
        key = (identity.directory / "serverkey.pem").read_bytes()
        shown = Held(given.server.encode(), key, authority.certificate)
        if case == "of another cloud":
            shown = certificates.hold_control_plane(certificates.make_authority(now()), now(), 60.0)
        address = "localhost" if case == "of another address" else HERE

        async def check() -> None:
            await asyncio.to_thread(check_daemon, "host-1", address, identity.directory)

        if case == "nobody":
            with pytest.raises(Conflict, match=reason):
                await check()
            return
        talks = None if case == "shows nothing" else shown
        async with daemon(port, talks, b"\x00" if case == "turns us away" else b"\x01"):
            if not reason:
                await check()
                return
            with pytest.raises(Conflict, match=f"port {port}.*{reason}") as refused:
                await check()
            assert str(identity.directory) in refused.value.public
