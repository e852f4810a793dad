"""TLS at the socket of the APIs: the certificate that settings name, and a word where it misses."""

from __future__ import annotations

import ssl
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from cryptography import x509

from mooring.errors import Invalid

if TYPE_CHECKING:
    from mooring.config import Settings

log = structlog.get_logger()
_OTHERS = 0o077


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
