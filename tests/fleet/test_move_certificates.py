"""Hosts that joined get what their guests come and go with over TLS, and get it anew in time."""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from msgspec.structs import replace

from mooring import certificates
from mooring.agent.app import RunningAgent, open_agent
from mooring.agent.move_identity import KEY, LINK, MoveIdentity
from mooring.agent.settings import AgentSettings
from mooring.agent_api.certificates import MoveCertificates
from mooring.agent_api.client import Agents
from mooring.agent_api.joining import JoinRequest, read_token
from mooring.clock import SimulatedClock
from mooring.errors import Conflict
from mooring.fleet import joining, renewal
from mooring.fleet.fleet import Fleet, open_fleet
from mooring.fleet.joining import MOVES_LIFETIME_S, MOVES_RENEW_S
from mooring.limits import CERTIFICATE_LIFETIME_S
from mooring.saga.seal import Sealer
from mooring.store.base import Store
from tests.fleet.stores import BOTH, open_fleet_store

pytestmark = pytest.mark.anyio


@pytest.fixture(params=BOTH)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store]:
    async with open_fleet_store(request, tmp_path) as opened:
        yield opened


class Members:
    """A fleet with hosts whose agents run in this process."""

    def __init__(self, fleet: Fleet, directory: Path, stack: AsyncExitStack) -> None:
        self.fleet, self._directory, self._stack = fleet, directory, stack

    async def join(self, name: str, *, move_tls: bool = True) -> RunningAgent:
        """Let a host join at 10.0.0.2."""
        token, _ = await self.fleet.invite(name, ["compute"], "10.0.0.1:8472")
        wish = certificates.make_request(certificates.new_key(), name).decode()
        settings = AgentSettings(
            name=name,
            state_dir=self._directory / name,
            hypervisor="simulated",
            move_tls=move_tls,
        )
        running = await self._stack.enter_async_context(open_agent(settings))
        self.fleet.agents.in_process(name, running.app)
        secret = read_token(token).secret
        await self.fleet.join(JoinRequest(secret, wish, "10.0.0.2:8471"))
        return running

    def turn(self, seconds: float) -> None:
        """Let time pass."""
        assert isinstance(self.fleet.clock, SimulatedClock)
        self.fleet.clock.advance(seconds)


@pytest.fixture
async def members(store: Store, tmp_path: Path) -> AsyncGenerator[Members]:
    fleet = await open_fleet(store, Sealer(b"k" * 32), Agents(), SimulatedClock(datetime.now(UTC)))
    async with AsyncExitStack() as stack:
        yield Members(fleet, tmp_path, stack)


def held(running: RunningAgent) -> MoveCertificates | None:
    return MoveIdentity(running.agent.settings).read()


def purposes(pem: str) -> list[x509.ObjectIdentifier]:
    found = x509.load_pem_x509_certificate(pem.encode())
    return list(found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)


async def test_a_host_that_wants_them_gets_them_and_no_other(members: Members) -> None:
    wants, plain = await members.join("h2"), await members.join("h3", move_tls=False)
    assert held(wants) is None
    await renewal.renew_all_moves(members.fleet)
    given, row = held(wants), await members.fleet.host("h2")
    assert given is not None
    assert held(plain) is None
    assert purposes(given.server) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert purposes(given.client) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    name = certificates.enrolled_name(given.server.encode())
    assert name == certificates.host_name(row.enrolment)
    assert MoveIdentity(wants.agent.settings).name() == name
    now = members.fleet.clock.now()
    lifetimes = [certificates.expiry(one.encode()) - now for one in (given.server, given.client)]
    wanted = [CERTIFICATE_LIFETIME_S, MOVES_LIFETIME_S]
    for found, seconds in zip(lifetimes, wanted, strict=True):
        assert abs(found - timedelta(seconds=seconds)) < timedelta(seconds=2)


async def test_what_they_are_shown_with_opens_no_agent(members: Members) -> None:
    """ADR 7: a host's certificate asks nobody but other hosts' daemons."""
    running = await members.join("h2")
    await renewal.renew_all_moves(members.fleet)
    given = held(running)
    assert given is not None
    assert given.authority.encode() != members.fleet.authority
    issuer = x509.load_pem_x509_certificate(members.fleet.authority)
    for one in (given.server, given.client):
        with pytest.raises(Exception, match=r"(?i)issuer|signature"):
            x509.load_pem_x509_certificate(one.encode()).verify_directly_issued_by(issuer)


async def test_they_are_renewed_in_time_and_not_before(members: Members) -> None:
    running = await members.join("h2")
    await renewal.renew_all_moves(members.fleet)
    first = held(running)
    members.turn(MOVES_LIFETIME_S - MOVES_RENEW_S - 60)
    await renewal.renew_all_moves(members.fleet)
    assert held(running) == first
    members.turn(120)
    await renewal.renew_all_moves(members.fleet)
    assert held(running) != first
    identity = MoveIdentity(running.agent.settings)
    sets = list(identity.directory.parent.glob(f"{LINK}.set-*"))
    assert sets == [identity.directory.resolve()]


async def test_a_host_that_joins_anew_is_certified_anew(members: Members) -> None:
    running = await members.join("h2")
    await renewal.renew_all_moves(members.fleet)
    first, row = held(running), await members.fleet.host("h2")
    row.enrolment = "5" * 32
    await renewal.renew_moves(members.fleet, row)
    assert held(running) != first
    assert MoveIdentity(running.agent.settings).name() == certificates.host_name("5" * 32)


async def test_a_host_keeps_its_key_and_takes_nothing_for_another(members: Members) -> None:
    running = await members.join("h2")
    identity = MoveIdentity(running.agent.settings)
    await renewal.renew_all_moves(members.fleet)
    given = held(running)
    assert given is not None
    files = sorted(path.name for path in identity.directory.iterdir())
    assert len(files) == 10
    assert not (identity.directory.parent / KEY).exists()
    identity.take(given)
    other = certificates.read_request(certificates.make_request(certificates.new_key(), "h2"))
    row = await members.fleet.host("h2")
    wrong = joining.sign_moves(members.fleet.moves, row, other, members.fleet.clock.now())
    with pytest.raises(Conflict, match="another key"):
        identity.take(wrong)
    assert held(running) == given


async def test_a_host_keeps_no_key_of_a_set_that_it_does_not_show(
    members: Members, tmp_path: Path
) -> None:
    """One is killed before it has removed the former set, another before it shows the new one."""
    running = await members.join("h2")
    await renewal.renew_all_moves(members.fleet)
    killed, settings = tmp_path / "killed", running.agent.settings
    shutil.copytree(
        settings.state_dir,
        killed,
        symlinks=True,
        ignore=lambda _, names: [name for name in names if name.startswith("journal")],
    )
    other = killed / f"{LINK}.set-0123456789abcdef"
    shutil.copytree(killed / LINK, other)
    (killed / KEY).write_bytes((other / "serverkey.pem").read_bytes())
    async with open_agent(replace(settings, state_dir=killed)) as anew:
        assert held(anew) == held(running)
        assert len([path for path in killed.glob(f"{LINK}*") if not path.is_symlink()]) == 1


async def test_a_host_without_valid_ones_takes_no_guests(members: Members) -> None:
    running = await members.join("h2")
    identity = MoveIdentity(running.agent.settings)
    with pytest.raises(Conflict, match="no certificate for moves"):
        identity.name()
    # That of its daemon is valid for long after the other one.
    members.turn(-2 * MOVES_LIFETIME_S)
    await renewal.renew_all_moves(members.fleet)
    assert held(running) is not None
    with pytest.raises(Conflict, match="no certificate for moves"):
        identity.name()


def of_nobody() -> bytes:
    """A certificate without the name of a host."""
    key, name, now = ec.generate_private_key(ec.SECP256R1()), x509.Name([]), datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize("shown", [of_nobody(), b"-----BEGIN CERT", b""])
async def test_a_host_that_shows_none_of_a_hosts_gets_one_and_others_have_their_turn(
    members: Members, shown: bytes
) -> None:
    strange, other = await members.join("h2"), await members.join("h3")
    await renewal.renew_all_moves(members.fleet)
    given, now = held(strange), members.fleet.clock.now()
    assert given is not None
    row, wrong = await members.fleet.host("h2"), replace(given, server=shown.decode())
    assert joining.lacks_moves(members.fleet.moves, row, wrong, now)
    assert not joining.lacks_moves(members.fleet.moves, row, given, now)
    directory = MoveIdentity(strange.agent.settings).directory
    for path in directory.rglob("*"):
        if path.is_file() and path.read_bytes() == given.server.encode():
            path.write_bytes(shown)
    assert held(strange) != given
    members.turn(MOVES_LIFETIME_S - MOVES_RENEW_S + 60.0)
    before = held(other)
    await renewal.renew_all_moves(members.fleet)
    mended = held(strange)
    assert mended is not None
    assert certificates.enrolled_name(mended.server.encode())
    assert held(other) != before
