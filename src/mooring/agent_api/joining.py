"""How a host joins a cloud: the token that its operator carries there, and the two calls it makes.

The token says where the control plane is and which authority it has. The first call fetches that
authority's certificate from whoever answers, and believes it by its fingerprint alone; the second
goes to none but the control plane that it has certified.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import re
import secrets
import ssl
from typing import Literal

import httpx2
import msgspec
from msgspec import Struct

from mooring import certificates, typed
from mooring.agent_api.wire import error_of
from mooring.errors import Forbidden, Invalid, Unavailable
from mooring.limits import JOIN_BODY_BYTES, JOIN_TOKEN_CHARACTERS, JOIN_WAIT_S

_PREFIX = "mooring-join-1."
_SECRET_BYTES = 32
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?")
Role = Literal["compute", "volume", "share"]


class JoinToken(Struct, frozen=True, forbid_unknown_fields=True):
    """One use, one host. `address` is ADDRESS:PORT, `authority` the SHA-256 of a certificate."""

    address: str
    authority: str
    host: str
    secret: str


class JoinRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /join`: `wish` is a certificate request, the host serves at `address`."""

    secret: str
    wish: str
    address: str


class Joined(Struct, frozen=True):
    """The answer: what the host is called and does from now on, and its certificate (PEM)."""

    name: str
    roles: list[Role]
    certificate: str


def check_name(name: str) -> None:
    """Raise Invalid for a name that no host can have."""
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"'{name[:80]}' is no name for a host: 1 to 63 letters, digits, dots and hyphens, the "
            "first and last neither dot nor hyphen."
        )


def new_secret() -> str:
    """Return what makes a token hard to guess."""
    return secrets.token_urlsafe(_SECRET_BYTES)


def write_token(token: JoinToken) -> str:
    """Return a token as the text that its operator carries."""
    return _PREFIX + base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def read_token(text: str) -> JoinToken:
    """Return what a token says. Raises Invalid for what is none."""
    text = text.strip()
    padded = text.removeprefix(_PREFIX) + "=" * (-len(text.removeprefix(_PREFIX)) % 4)
    try:
        if not text.startswith(_PREFIX) or len(text) > JOIN_TOKEN_CHARACTERS:
            raise ValueError(text[:20])
        return typed.decode(base64.b64decode(padded, b"-_", validate=True), JoinToken)
    except (ValueError, binascii.Error, msgspec.DecodeError) as error:
        raise Invalid(
            "That is no join token. Copy the whole line that `mooring host add` has printed.",
            private=str(error),
        ) from error


async def fetch_authority(token: JoinToken) -> bytes:
    """Return the certificate (PEM) of the authority that a token means.

    Raises Forbidden when another one answers there, Unavailable when none does.
    """
    found = await _call(token, certificates.unverified_context(), "GET", "/authority")
    if not hmac.compare_digest(certificates.fingerprint(found), token.authority):
        raise Forbidden(
            f"What answers at {token.address} is not the cloud that this token is from. Nothing "
            "was sent to it. See who has that address, or ask for a new token."
        )
    return found


async def join(token: JoinToken, authority: bytes, key: bytes, address: str) -> Joined:
    """Ask to be certified as the token's host, which serves at `address`.

    Asking again with the same key gives the same answer. Raises Forbidden and Conflict as the
    control plane does, Unavailable when it does not answer.
    """
    wish = certificates.make_request(key, token.host).decode("ascii")
    body = msgspec.json.encode(JoinRequest(secret=token.secret, wish=wish, address=address))
    context = certificates.client_context(authority)
    answer = typed.decode(await _call(token, context, "POST", "/join", body), Joined)
    if not certificates.is_for(answer.certificate.encode(), key):
        raise Unavailable("The control plane certified another key. Start the agent again.")
    return answer


async def _call(
    token: JoinToken, context: ssl.SSLContext, method: str, path: str, body: bytes = b""
) -> bytes:
    """Return the body of an answer that is none too large."""
    transport = httpx2.AsyncHTTPTransport(verify=context, trust_env=False)
    client = httpx2.AsyncClient(transport=transport, trust_env=False, timeout=JOIN_WAIT_S)
    named = {"sni_hostname": certificates.CONTROL_PLANE}
    address = token.address
    url = f"https://{address}{path}"
    try:
        async with asyncio.timeout(JOIN_WAIT_S), client:
            answer = await client.request(method, url, content=body, extensions=named)
    except (httpx2.TransportError, httpx2.InvalidURL, TimeoutError) as error:
        raise Unavailable(
            f"The control plane does not answer at {token.address}, or not as the one that this "
            "token is from. See that it runs and that this host reaches it; then start the agent "
            "again with the same token.",
            private=repr(error),
        ) from error
    if answer.status_code >= 400:
        raise error_of(answer.status_code, answer.content, token.host)
    if len(answer.content) > JOIN_BODY_BYTES:
        raise Unavailable(f"The answer from {token.address} makes no sense. See what serves there.")
    return answer.content
