"""The socket of the APIs over TLS: who trusts the certificate gets in, also our own commands."""

from __future__ import annotations

import asyncio
import signal
import ssl
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import httpx2
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from mooring import certificates, config, listener_tls
from mooring.clients.transport import Network, Request
from mooring.clock import SimulatedClock
from mooring.config import Settings
from mooring.errors import Invalid
from tests.kill.processes import CommandProcess, run_forked


def certify(directory: Path, issuer: str = "cloud") -> tuple[Path, Path]:
    """Make a certificate for this machine's loopback, signed by itself, and its key.

    With another issuer's name it is as one that an authority signed.
    """
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name, other = (
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, each)])
        for each in ("cloud", issuer)
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(other)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    chain, secret = directory / "chain.pem", directory / "key.pem"
    chain.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret.touch(mode=0o600)
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return chain, secret


def until(holds: Callable[[], bool], patience_s: float = 60.0) -> None:
    """Look again and again until something holds: the process cannot tell when it has looked."""
    end, nothing = time.monotonic() + patience_s, threading.Event()
    while not holds():
        assert time.monotonic() < end
        nothing.wait(0.2)


def until_trusted(url: str, chain: Path) -> httpx2.Response:
    """Ask with a certificate as the authority, until it is the one that is shown."""
    answers: list[httpx2.Response] = []

    def ask() -> bool:
        try:
            answers.append(httpx2.get(url, verify=ssl.create_default_context(cafile=str(chain))))
        except httpx2.ConnectError:
            return False
        return True

    until(ask)
    return answers[0]


def test_a_cloud_behind_a_certificate_serves_whoever_trusts_it(tmp_path: Path) -> None:
    chain, key = certify(tmp_path)
    settings = tmp_path / "settings.toml"
    settings.write_text(f'tls_certificate = "{chain}"\ntls_key = "{key}"\n')
    state = ("--state-dir", str(tmp_path / "state"))
    where = (*state, "--listen", "127.0.0.1:0", "--hypervisor", "simulated")
    process = CommandProcess("up", "--config", str(settings), *where, log=tmp_path / "log")
    try:
        assert process.ready.startswith("https://")
        clouds = yaml.safe_load((tmp_path / "state" / "clouds.yaml").read_text())["clouds"]
        demo = clouds["demo"]
        assert demo["auth"]["auth_url"] == f"{process.ready}/identity/v3"
        trusting = ssl.create_default_context(cafile=demo["cacert"])
        answer = httpx2.get(demo["auth"]["auth_url"], verify=trusting)
        assert answer.status_code == 200
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(demo["auth"]["auth_url"])
        in_the_clear = process.ready.replace("https", "http")
        with pytest.raises(httpx2.TransportError):
            httpx2.get(f"{in_the_clear}/healthz")
        code, said, warned = run_forked("operations", "list", *state)
        assert (code, said) == (0, "Nothing is going on.\n"), warned
        # Another certificate is shown without a restart, and one that does not fit is not.
        certify(tmp_path)
        known = chain.read_bytes()
        answer = until_trusted(demo["auth"]["auth_url"], chain)
        assert answer.status_code == 200
        key.write_bytes(certificates.new_key())
        chain.write_bytes(b"nothing")
        log = tmp_path / "log"
        until(lambda: b"the new certificate is not shown" in log.read_bytes())
        chain.write_bytes(known)
        trusting = ssl.create_default_context(cafile=str(chain))
        assert httpx2.get(demo["auth"]["auth_url"], verify=trusting).status_code == 200
        process.popen.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    finally:
        process.popen.kill()
        process.popen.wait()


def test_files_that_are_no_certificate_and_its_key_are_named(tmp_path: Path) -> None:
    chain, key = certify(tmp_path)
    settings = Settings(tls_certificate=str(chain), tls_key=str(key))
    key.chmod(0o644)
    with pytest.raises(Invalid, match=r"Others may read .*key\.pem"):
        listener_tls.context(settings)
    key.chmod(0o600)
    assert listener_tls.context(settings) is not None
    key.write_bytes(certificates.new_key())
    with pytest.raises(Invalid, match="no certificate and its key"):
        listener_tls.context(settings)
    with pytest.raises(Invalid, match="go together"):
        config.load(environment={}, overrides={"tls_key": str(key)})
    both = {"tls_certificate": str(chain), "tls_key": str(key)}
    with pytest.raises(Invalid, match="https://"):
        config.load(environment={}, overrides={**both, "public_url": "http://cloud"})


@pytest.mark.parametrize(
    ("listen", "public_url", "warns"),
    [
        ("127.0.0.1:1", "", False),
        ("[::1]:1", "", False),
        ("0.0.0.0:1", "", True),
        ("192.0.2.7:1", "http://cloud", True),
        ("192.0.2.7:1", "https://cloud", False),
    ],
)
def test_a_listener_beyond_loopback_in_the_clear_is_warned_of(
    listen: str, public_url: str, warns: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert listener_tls.context(Settings(listen=listen, public_url=public_url)) is None
    told = capsys.readouterr()
    assert ("in the clear" in told.out + told.err) is warns


def test_clients_know_a_certificate_by_its_authority(tmp_path: Path) -> None:
    chain, key = certify(tmp_path)
    settings = Settings(tls_certificate=str(chain), tls_key=str(key))
    assert listener_tls.authority(settings) == chain
    certify(tmp_path, "somebody whom systems trust")
    assert listener_tls.authority(settings) is None
    named = Settings(tls_certificate=str(chain), tls_key=str(key), tls_authority=str(key))
    assert listener_tls.authority(named) == key
    assert listener_tls.authority(Settings()) is None


@pytest.mark.anyio
async def test_calls_go_on_when_a_certificate_that_is_its_own_authority_is_replaced(
    tmp_path: Path,
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 \r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    chain, key = certify(tmp_path)
    settings = Settings(tls_certificate=str(chain), tls_key=str(key))
    shown, before = listener_tls.context(settings), listener_tls.seen(settings)
    network, clock = Network(str(chain)), SimulatedClock()
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=shown)
    port = server.sockets[0].getsockname()[1]
    asked = Request("GET", f"https://127.0.0.1:{port}/", {}, b"")
    fresh = listener_tls.keep_fresh(settings, shown, before, clock, network.trust)
    keeping = asyncio.create_task(fresh)
    try:
        assert (await network.send(asked)).status == 204
        certify(tmp_path)
        trusting = ssl.create_default_context(cafile=str(chain))
        assert not await is_shown(asked.target, trusting)
        while not keeping.done() and not await is_shown(asked.target, trusting):
            clock.advance(listener_tls.TLS_LOOK_S)
        assert (await network.send(asked)).status == 204
    finally:
        keeping.cancel()
        await network.aclose()
        server.close()


def test_a_cloud_without_certificate_sees_no_other_one_where_it_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = listener_tls.seen(Settings())
    (tmp_path / "new").mkdir()
    assert listener_tls.seen(Settings()) == before == ()


async def is_shown(url: str, trusting: ssl.SSLContext) -> bool:
    """Whether who trusts a certificate alone gets in."""
    async with httpx2.AsyncClient(verify=trusting) as client:
        try:
            return (await client.get(url)).status_code == 204
        except httpx2.ConnectError:
            return False
