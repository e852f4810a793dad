"""Tokens: what is inside, whether they still stand, and who they stand for.

A token holds ids and times only, encrypted; what it is worth is read from the tables whenever it
is shown. Source: facts/identity_image_placement.md 2.2, 2.5 and 7.1.
"""

from __future__ import annotations

import base64
import secrets
from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from sqlalchemy import delete, select

from mooring import limits, typed
from mooring.clients.token import TokenInfo
from mooring.errors import Unauthenticated
from mooring.identity import standing
from mooring.identity.standing import INVALID, Standing
from mooring.identity.tables import RevocationRow, UserRow

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.identity.service import Identity

METHODS = ("password", "token", "application_credential")
_KINDS = ("", "project", "domain", "system")
_ID_DIGITS = 32
_WHOLE, _FOLDED = 1, 2
"""Forms of a token: with all that it was made from, or with its own and the first one alone."""
_ROOM_BYTES = 127
"""What 255 characters hold: 191 bytes, less 57 of Fernet's, in whole blocks of 16 with a pad."""


class Token(Struct, frozen=True, kw_only=True):
    """A token's content.

    `audit_ids` are its own and, after exchanges, those of all that it was made from, up to the
    first one: whichever of them is ended, it ends. One that has no room for them has its own and
    the first one, and is not `whole`: it ends with any of that chain but the first's own others.
    """

    user_id: str
    scope: str
    methods: tuple[str, ...]
    issued_at: datetime
    expires_at: datetime
    audit_ids: tuple[str, ...]
    generation: int | None
    """Of its user when it was issued; None in tokens of before generations were counted."""
    credential_id: str = ""
    place_generation: int | None = None
    """Of its project or domain when it was issued; None in tokens of before those were counted."""
    whole: bool = True

    @property
    def shown_audit_ids(self) -> tuple[str, ...]:
        """What clients are told: its own and, after an exchange, that of the first one."""
        return tuple(dict.fromkeys((self.audit_ids[0], self.audit_ids[-1])))


class _Packed(Struct, frozen=True, array_like=True):
    form: int
    user: bytes
    methods: int
    kind: int
    place: bytes
    issued_us: int
    expires_s: int
    audits: bytes
    credential: bytes
    generation: int | None = None
    place_generation: int | None = None


def issue(identity: Identity, token: Token) -> str:
    """Return the text of a token, at most 255 characters."""
    content = _encode(token)
    if len(content) > _ROOM_BYTES:
        ends = token.audit_ids[0], token.audit_ids[-1]
        content = _encode(msgspec.structs.replace(token, audit_ids=ends, whole=False))
    return identity.keys.encrypt(content)


def _encode(token: Token) -> bytes:
    kind, _, place = token.scope.partition(":")
    packed = _Packed(
        _WHOLE if token.whole else _FOLDED,
        bytes.fromhex(token.user_id),
        sum(1 << METHODS.index(method) for method in token.methods),
        _KINDS.index(kind),
        _pack(kind, place),
        round(token.issued_at.timestamp() * 1_000_000),
        int(token.expires_at.timestamp()),
        b"".join(base64.urlsafe_b64decode(audit_id + "==") for audit_id in token.audit_ids),
        bytes.fromhex(token.credential_id),
        token.generation,
        token.place_generation,
    )
    return msgspec.msgpack.encode(packed)


def read(identity: Identity, text: str) -> Token:
    """Return what a token holds, whether it still stands or not. Raises Unauthenticated."""
    try:
        packed = typed.unpack(identity.keys.decrypt(text), _Packed)
    except msgspec.MsgspecError as error:
        raise Unauthenticated(INVALID, private="a token of an unknown form") from error
    kind = _KINDS[packed.kind]
    place = _unpack(kind, packed.place)
    audits = [packed.audits[at : at + 16] for at in range(0, len(packed.audits), 16)]
    return Token(
        user_id=packed.user.hex(),
        scope=f"{kind}:{place}" if kind else "",
        methods=tuple(name for at, name in enumerate(METHODS) if packed.methods >> at & 1),
        issued_at=datetime.fromtimestamp(0, UTC) + timedelta(microseconds=packed.issued_us),
        expires_at=datetime.fromtimestamp(packed.expires_s, UTC),
        audit_ids=tuple(_audit_text(audit) for audit in audits),
        generation=packed.generation,
        credential_id=packed.credential.hex(),
        place_generation=packed.place_generation,
        whole=packed.form != _FOLDED,
    )


def new_audit_id() -> str:
    """Return a new audit id, 22 characters."""
    return _audit_text(secrets.token_bytes(16))


def check(tx: Session, token: Token, now: datetime, *, allow_expired: bool = False) -> Standing:
    """Return what a token is worth now. Raises Unauthenticated when it no longer stands."""
    grace = timedelta(seconds=limits.IDENTITY_EXPIRED_S if allow_expired else 0)
    if token.expires_at + grace <= now:
        raise Unauthenticated(INVALID, private="an expired token")
    ends = token.audit_ids if token.whole else (*token.audit_ids, _chain(token))
    revoked = select(RevocationRow.audit_id).where(RevocationRow.audit_id.in_(ends))
    if tx.execute(revoked).first() is not None:
        raise Unauthenticated(INVALID, private="a revoked token")
    if not _is_of_now(tx, token):
        raise Unauthenticated(INVALID, private="a token of before its user changed")
    found = standing.find(
        tx, token.user_id, token.scope, credential_id=token.credential_id, now=now
    )
    if found.place is not None and found.place.generation != (token.place_generation or 0):
        raise Unauthenticated(INVALID, private="a token of before its place was disabled")
    return found


def _is_of_now(tx: Session, token: Token) -> bool:
    """Whether a token's user is as it was when the token was issued: by count, not by time."""
    query = select(UserRow.token_generation, UserRow.tokens_from)
    user = tx.execute(query.where(UserRow.id == token.user_id)).first()
    if user is None:
        return False
    generation, since = user
    if token.generation is None:
        return generation == 0 and token.issued_at >= since
    return token.generation == generation


def revoke(tx: Session, token: Token, now: datetime) -> None:
    """End a token, and with it those that were made from it.

    One in the middle of a chain may be what tokens that do not name it were made from: with it end
    all of the chain that had no room for what they were made from.
    """
    tx.execute(delete(RevocationRow).where(RevocationRow.forget_at < now))
    forget_at = token.expires_at + timedelta(seconds=limits.IDENTITY_EXPIRED_S)
    tx.merge(RevocationRow(audit_id=token.audit_ids[0], forget_at=forget_at))
    if len(token.audit_ids) > 1:
        tx.merge(RevocationRow(audit_id=_chain(token), forget_at=forget_at))


def info(token: Token, worth: Standing) -> TokenInfo:
    """Return what services are told of a token."""
    kind = token.scope.partition(":")[0]
    nowhere = standing.Place("", "")
    project = worth.place if kind == "project" and worth.place else nowhere
    return TokenInfo(
        user_id=worth.user.id,
        user_name=worth.user.name,
        user_domain_id=worth.user.domain_id,
        project_id=project.id,
        project_name=project.name,
        project_domain_id=project.domain_id,
        domain_id=worth.place.id if kind == "domain" and worth.place else "",
        system_scope="all" if kind == "system" else "",
        roles=frozenset(name.lower() for _, name in worth.roles),
        methods=token.methods,
        audit_ids=token.shown_audit_ids,
        application_credential_id=token.credential_id,
        issued_at=token.issued_at,
        expires_at=token.expires_at,
    )


class LocalValidator:
    """Validates tokens without HTTP, where identity is in the same process.

    What a token is worth is remembered until this process changes anything, and for a few seconds
    at most: another process may have changed it.
    """

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._known: OrderedDict[str, tuple[int, float, TokenInfo]] = OrderedDict()

    async def validate(self, token: str, *, allow_expired: bool = False) -> TokenInfo:
        """Return what a token says. Raises Unauthenticated when it is not valid."""
        identity = self._identity
        now = identity.clock.now()
        revision, until, known = self._known.get(token, (-1, 0.0, None))
        fresh = revision == identity.revision and identity.clock.monotonic() < until
        if known is None or not fresh:
            revision = identity.revision
            content = read(identity, token)
            worth = await identity.store.read(
                lambda tx: check(tx, content, now, allow_expired=True)
            )
            known = info(content, worth)
            self._remember(token, revision, known)
        if known.expires_at <= now and not allow_expired:
            raise Unauthenticated(INVALID, private="an expired token")
        return known

    def _remember(self, token: str, revision: int, known: TokenInfo) -> None:
        until = self._identity.clock.monotonic() + limits.IDENTITY_CACHE_S
        self._known[token] = (revision, until, known)
        self._known.move_to_end(token)
        if len(self._known) > limits.IDENTITY_CACHE_ENTRIES:
            self._known.popitem(last=False)


def _pack(kind: str, place: str) -> bytes:
    """Return a place as a token holds it: an id of 32 digits in half of its length."""
    is_id = kind in {"project", "domain"} and len(place) == _ID_DIGITS
    return bytes.fromhex(place) if is_id else place.encode()


def _unpack(kind: str, place: bytes) -> str:
    is_id = kind in {"project", "domain"} and len(place) == _ID_DIGITS // 2
    return place.hex() if is_id else place.decode()


def _chain(token: Token) -> str:
    """Return what stands for a chain among the tokens that were ended: no audit id has a colon."""
    return f"chain:{token.audit_ids[-1]}"


def _audit_text(audit: bytes) -> str:
    return base64.urlsafe_b64encode(audit).decode("ascii").rstrip("=")
