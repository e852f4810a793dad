"""TLS at the socket of the APIs: the certificate that settings name, and a word where it misses."""

from __future__ import annotations

import asyncio
import ssl
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import structlog
from cryptography import x509

from mooring.errors import Invalid, MooringError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mooring.clock import Clock
    from mooring.config import Settings

log = structlog.get_logger()
Seen: TypeAlias = tuple[tuple[int, int, int], ...]
_OTHERS = 0o077
TLS_LOOK_S = 5.0
"""How often it is looked whether there is another certificate."""


def context(settings: Settings) -> ssl.SSLContext | None:
    """Return what the listener shows, None for HTTP in the clear.

    Warns where that goes beyond this machine. Raises Invalid for files that are no certificate and
    its key, and for a key that others may read.
    """
    if not settings.tls_certificate:
        if not _is_loopback(settings.address) and not settings.public_url.startswith("https://"):
            log.warning(
                "passwords and tokens go over the network in the clear",
                listen=settings.listen,
                remedy="set tls_certificate and tls_key, or put a proxy with TLS in front and set "
                "public_url to its https:// address",
            )
        return None
    certificate, key = Path(settings.tls_certificate).expanduser(), Path(settings.tls_key)
    key = key.expanduser()
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if key.stat().st_mode & _OTHERS:
            raise Invalid(f"Others may read {key}: chmod 600 it, and better make a new key.")
        made.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        raise Invalid(
            f"{certificate} and {key} are no certificate and its key, in PEM and without a "
            f"password: {error}."
        ) from error
    return made


def seen(settings: Settings) -> Seen:
    """Return what there is of certificate, key and authority, by which others are told apart."""
    found: list[tuple[int, int, int]] = []
    named = (settings.tls_certificate, settings.tls_key, settings.tls_authority)
    # What no setting names would be the directory that the cloud was started in.
    for one in filter(None, named):
        try:
            status = Path(one).expanduser().stat()
        except OSError:
            continue
        found.append((status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(found)


async def keep_fresh(
    settings: Settings,
    shown: ssl.SSLContext | None,
    before: Seen,
    clock: Clock,
    trust: Callable[[str], None],
) -> None:
    """Show another certificate as soon as its files are there, until cancelled.

    `before` is what was seen of those that are shown. Connections that are open keep what they
    have. Files that are no certificate and its key, as in the middle of a change, are said once and
    looked at again when they are others; what was shown stays. `trust` is given the file that
    certifies it: other processes of the cloud show the same.
    """
    while True:
        await clock.sleep(TLS_LOOK_S)
        now = await asyncio.to_thread(seen, settings)
        if now == before:
            continue
        before = now
        try:
            known = await asyncio.to_thread(_check, settings)
            # Here and not there: connections are made from it on this thread.
            _show(settings, shown)
            trust(known)
        except (MooringError, OSError, ValueError) as error:
            log.warning("the new certificate is not shown, the one of before is", reason=str(error))
            continue
        log.info("another certificate is shown from now on", file=settings.tls_certificate)


def _check(settings: Settings) -> str:
    """Return the file that certifies what settings name. Raises what `context` does, ValueError."""
    # Into one of its own: a key that does not fit would leave the shown one half changed.
    context(settings)
    return str(authority(settings) or "")


def _show(settings: Settings, shown: ssl.SSLContext | None) -> None:
    if shown is not None:
        certificate, key = Path(settings.tls_certificate), Path(settings.tls_key)
        shown.load_cert_chain(certificate.expanduser(), key.expanduser(), password=_no_password)


def authority(settings: Settings) -> Path | None:
    """Return the file that clients know the listener by; None where the system's own do.

    A certificate that one made oneself is its own authority. The chain of any other ends at one
    that `tls_authority` names, or that machines trust anyway.
    """
    if settings.tls_authority:
        return Path(settings.tls_authority).expanduser().absolute()
    if not settings.tls_certificate:
        return None
    file = Path(settings.tls_certificate).expanduser().absolute()
    last = x509.load_pem_x509_certificates(file.read_bytes())[-1]
    return file if last.issuer == last.subject else None


def _no_password() -> str:
    raise ValueError("the key has a password")


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
