"""Keys and certificates of a cloud's own authority, and the TLS contexts that are made of them.

X.509 (RFC 5280) with keys on P-256, TLS 1.3. What a certificate is good for stands in it: a host's
is good for serving alone, so one host can never pass for the control plane with another.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import ssl
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from mooring.errors import Invalid
from mooring.limits import AUTHORITY_LIFETIME_S, CERTIFICATE_BACKDATE_S

CONTROL_PLANE = "control-plane.mooring"
"""The name in the control plane's own certificates, which hosts ask for."""
_HOST = ".host.mooring"
HOSTS, MOVES = "Mooring host authority", "Mooring authority for moves"
"""The names of a cloud's two authorities: what the one certifies counts nowhere for the other."""
_PEM = serialization.Encoding.PEM
_DER = serialization.Encoding.DER
_SERVES, _ASKS = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH


class Held(Struct, frozen=True):
    """A certificate with its private key, and that of the authority which signed it: PEM."""

    certificate: bytes
    key: bytes
    authority: bytes


class Wish(Struct, frozen=True):
    """What a request for a certificate says: a name, and the public key (DER) that signed it."""

    name: str
    public_key: bytes

    @property
    def key_digest(self) -> str:
        """What tells this key from others."""
        return hashlib.sha256(self.public_key).hexdigest()


def host_name(enrolment: str) -> str:
    """Return the name that the certificate of one joining of a host carries, and no other's."""
    return f"{enrolment}{_HOST}"


def new_key() -> bytes:
    """Return a new private key, as PEM without a password."""
    key = ec.generate_private_key(ec.SECP256R1())
    kind = serialization.PrivateFormat.PKCS8
    return key.private_bytes(_PEM, kind, serialization.NoEncryption())


def make_request(key: bytes, name: str) -> bytes:
    """Return the request (RFC 2986, PEM) of whoever has a key to be certified under a name."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(_subject(name))
    return builder.sign(_private(key), hashes.SHA256()).public_bytes(_PEM)


def read_request(pem: bytes) -> Wish:
    """Return what a request asks for. Raises Invalid: no request, not signed by its own key."""
    try:
        found = x509.load_pem_x509_csr(pem)
        is_signed = found.is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise Invalid("That is no request for a certificate.", private=str(error)) from error
    names = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    key = found.public_key()
    if not (is_signed and len(names) == 1 and isinstance(key, ec.EllipticCurvePublicKey)):
        raise Invalid("A request for a certificate needs one name, a key on P-256 and its word.")
    return Wish(str(names[0].value), _public(key))


def make_authority(now: datetime, name: str = HOSTS) -> Held:
    """Return a new authority, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    made = (
        _builder(now, AUTHORITY_LIFETIME_S)
        .subject_name(_subject(name))
        .issuer_name(_subject(name))
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(_PEM)
    )
    kind = serialization.PrivateFormat.PKCS8
    return Held(made, key.private_bytes(_PEM, kind, serialization.NoEncryption()), made)


def sign_host(
    authority: Held, wish: Wish, enrolment: str, address: str, *, now: datetime, lifetime_s: float
) -> bytes:
    """Return a host's certificate, PEM: for one joining of it, and its address in the network."""
    names = _names_of_host(wish, enrolment, address)
    return _sign(authority, wish, names, [_SERVES], _builder(now, lifetime_s))


def sign_for_moves(
    authority: Held,
    wish: Wish,
    enrolment: str,
    address: str,
    *,
    asks: bool,
    now: datetime,
    lifetime_s: float,
) -> bytes:
    """Return what a host's daemon and emulators serve with, or what they ask others with, PEM.

    libvirt and QEMU want `keyEncipherment` in each, though TLS 1.3 has no use for it.
    """
    names, purpose = _names_of_host(wish, enrolment, address), _ASKS if asks else _SERVES
    builder = _builder(now, lifetime_s)
    return _sign(authority, wish, names, [purpose], builder, enciphers=True)


def _names_of_host(wish: Wish, enrolment: str, address: str) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = [x509.DNSName(host_name(enrolment)), x509.DNSName(wish.name)]
    try:
        return [*names, x509.IPAddress(ipaddress.ip_address(address))]
    except ValueError:
        return [*names, x509.DNSName(address)]


def hold_control_plane(authority: Held, now: datetime, lifetime_s: float) -> Held:
    """Return a new key and certificate, with which a process of the control plane asks hosts."""
    key = new_key()
    wish = Wish(CONTROL_PLANE, _public(_private(key).public_key()))
    names: list[x509.GeneralName] = [x509.DNSName(CONTROL_PLANE)]
    made = _sign(authority, wish, names, [_SERVES, _ASKS], _builder(now, lifetime_s))
    return Held(made, key, authority.certificate)


def fingerprint(certificate: bytes) -> str:
    """Return the SHA-256 of a certificate (PEM), in hex. Raises Invalid for what is none."""
    return _read(certificate).fingerprint(hashes.SHA256()).hex()


def enrolled_name(certificate: bytes) -> str:
    """Return the name that a host's certificate (PEM) carries of its joining. Raises Invalid."""
    try:
        names = _read(certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName)
        carried = names.value.get_values_for_type(x509.DNSName)
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension) as error:
        raise Invalid("That certificate is no host's.", private=str(error)) from error
    found = [name for name in carried if name.endswith(_HOST)]
    if not found:
        raise Invalid("That certificate is no host's.")
    return found[0]


def expiry(certificate: bytes) -> datetime:
    """Return until when a certificate (PEM) is valid. Raises Invalid for what is none."""
    return _read(certificate).not_valid_after_utc


def is_for(certificate: bytes, key: bytes) -> bool:
    """Whether a certificate belongs to a private key, both PEM. Raises Invalid."""
    held = _read(certificate).public_key().public_bytes(_DER, _SPKI)
    return held == _public(_private(key).public_key())


def server_context(held: Held, *, asks_callers: bool) -> ssl.SSLContext:
    """Return how one serves: with `asks_callers` for those whom the same authority certified."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _trust(context, held.authority)
    renew(context, held)
    context.verify_mode = ssl.CERT_REQUIRED if asks_callers else ssl.CERT_NONE
    return context


def client_context(authority: bytes, held: Held | None = None) -> ssl.SSLContext:
    """Return how one asks whom `authority` certified; `held` says who asks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _trust(context, authority)
    if held is not None:
        renew(context, held)
    return context


def unverified_context() -> ssl.SSLContext:
    """Return how one asks somebody whose every word is checked by other means."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def renew(context: ssl.SSLContext, held: Held) -> None:
    """Let a context that is in use show another certificate from its next connection on."""
    # The library reads files only. This one lies in memory, so the key touches no disk.
    descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, held.certificate + held.key)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


_SPKI = serialization.PublicFormat.SubjectPublicKeyInfo


def _trust(context: ssl.SSLContext, authority: bytes) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=authority.decode("ascii"))


def _sign(
    authority: Held,
    wish: Wish,
    names: list[x509.GeneralName],
    purposes: list[x509.ObjectIdentifier],
    builder: x509.CertificateBuilder,
    *,
    enciphers: bool = False,
) -> bytes:
    issuer, key = _read(authority.certificate), serialization.load_der_public_key(wish.public_key)
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise Invalid("Only keys on P-256 are certified.")
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    known = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
    return (
        builder.subject_name(_subject(wish.name))
        .issuer_name(issuer.subject)
        .public_key(key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False, enciphers=enciphers), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(known, critical=False)
        .sign(_private(authority.key), hashes.SHA256())
        .public_bytes(_PEM)
    )


def _builder(now: datetime, lifetime_s: float) -> x509.CertificateBuilder:
    since = now - timedelta(seconds=CERTIFICATE_BACKDATE_S)
    return (
        x509.CertificateBuilder()
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(now + timedelta(seconds=lifetime_s))
    )


def _usage(*, signs: bool, enciphers: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=enciphers,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _public(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(_DER, _SPKI)


def _private(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise Invalid("That is no private key.", private=str(error)) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise Invalid("That is no private key on P-256.")
    return key


def _read(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise Invalid("That is no certificate.", private=str(error)) from error
