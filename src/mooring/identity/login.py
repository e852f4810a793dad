"""Logging in: from what somebody shows to a token. Source: facts/identity_image_placement.md 2.

Whatever is wrong with user, password or scope, the answer is one and the same 401.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from sqlalchemy import select

from mooring.errors import Forbidden, Invalid, NotFound, Unauthenticated
from mooring.identity import callers, projects, standing, tokens, users
from mooring.identity.callers import Caller
from mooring.identity.standing import INVALID, SYSTEM, Standing
from mooring.identity.tables import ApplicationCredentialRow, DomainRow, UserRow
from mooring.identity.tokens import METHODS, Token

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.identity.service import Identity


class DomainRef(Struct, frozen=True):
    """A domain, by its id or its name."""

    id: str | None = None
    name: str | None = None


class UserRef(Struct, frozen=True):
    """A user, by its id, or by its name and domain."""

    id: str | None = None
    name: str | None = None
    domain: DomainRef | None = None


class PasswordUser(UserRef, frozen=True, kw_only=True):
    """A user with its password."""

    password: str


class PasswordProof(Struct, frozen=True):
    """What the method `password` shows."""

    user: PasswordUser


class TokenProof(Struct, frozen=True):
    """What the method `token` shows."""

    id: str


class CredentialProof(Struct, frozen=True):
    """What the method `application_credential` shows."""

    secret: str
    id: str | None = None
    name: str | None = None
    user: UserRef | None = None


class Proofs(Struct, frozen=True):
    """Everything that was shown; each named method must hold."""

    methods: list[str]
    password: PasswordProof | None = None
    token: TokenProof | None = None
    application_credential: CredentialProof | None = None


class SystemRef(Struct, frozen=True):
    """The whole system."""

    all: bool


class Scope(Struct, frozen=True):
    """Where to work; at most one of them."""

    project: UserRef | None = None
    domain: DomainRef | None = None
    system: SystemRef | None = None
    unscoped: dict[str, Any] | None = None


class Auth(Struct, frozen=True):
    """A login."""

    identity: Proofs
    scope: Scope | str | None = None


class _Proven(Struct, frozen=True):
    """Who showed it, and what the new token takes over from it."""

    user_id: str
    generation: int
    """Of the user when it was read what there was to prove."""
    methods: tuple[str, ...]
    scope: str | None = None
    credential_id: str = ""
    expires_at: datetime | None = None
    audit_ids: tuple[str, ...] = ()
    whole: bool = True
    """These two of the token that was shown."""


async def log_in(identity: Identity, auth: Auth, caller: Caller) -> tuple[Token, Standing]:
    """Return the content of a new token.

    Raises Unauthenticated, Invalid, Forbidden, and Unavailable when too many log in at once.
    """
    now = identity.clock.now()
    proven = await _prove(identity, auth.identity, caller, now)
    if proven.credential_id and auth.scope is not None:
        message = "Application credentials cannot request a scope."
        raise Unauthenticated(message, identity={})

    def settle(tx: Session) -> tuple[str, Standing]:
        scope = proven.scope if proven.scope is not None else _scope(tx, proven, auth.scope, now)
        credential_id = proven.credential_id
        return scope, standing.find(tx, proven.user_id, scope, credential_id=credential_id, now=now)

    scope, worth = await identity.store.read(settle)
    lifetime = timedelta(seconds=identity.token_lifetime_s)
    token = Token(
        user_id=proven.user_id,
        scope=scope,
        methods=proven.methods,
        issued_at=now,
        expires_at=(proven.expires_at or now + lifetime).replace(microsecond=0),
        audit_ids=(tokens.new_audit_id(), *proven.audit_ids),
        whole=proven.whole,
        generation=proven.generation,
        credential_id=proven.credential_id,
        place_generation=worth.place.generation if worth.place else 0,
    )
    return token, worth


async def _prove(identity: Identity, proofs: Proofs, caller: Caller, now: datetime) -> _Proven:
    unknown = [method for method in proofs.methods if method not in METHODS]
    if unknown or not proofs.methods:
        message = f"Attempted to authenticate with an unsupported method: {unknown}."
        raise Unauthenticated(message, identity={"methods": list(METHODS)})
    proven: list[_Proven] = []
    for method in dict.fromkeys(proofs.methods):
        if getattr(proofs, method) is None:
            raise Invalid(f"Expecting to find {method} in identity.")
        if proofs.password is not None and method == "password":
            proven.append(await _prove_password(identity, proofs.password.user, caller))
        elif proofs.token is not None and method == "token":
            proven.append(await _prove_token(identity, proofs.token.id, now))
        elif proofs.application_credential is not None:
            proven.append(await _prove_credential(identity, proofs.application_credential, caller))
    if len({one.user_id for one in proven}) != 1:
        raise Unauthenticated(INVALID, private="methods of different users")
    methods = tuple(dict.fromkeys(method for one in proven for method in one.methods))
    strongest = max(proven, key=lambda one: (bool(one.credential_id), bool(one.audit_ids)))
    return _Proven(
        strongest.user_id,
        min(one.generation for one in proven),
        methods,
        strongest.scope,
        strongest.credential_id,
        strongest.expires_at,
        strongest.audit_ids,
        strongest.whole,
    )


def _describe(shown: UserRef | CredentialProof) -> str:
    """Return by what somebody is looked up, and no more: what else is shown makes no difference."""
    if isinstance(shown, CredentialProof):
        if shown.id is not None:
            return f"credential {shown.id}"
        user = _describe(shown.user) if shown.user else ""
        return f"credential {shown.name} of {user}"
    if shown.id is not None:
        return f"user {shown.id}"
    domain = shown.domain or DomainRef()
    place = f"id {domain.id}" if domain.id is not None else f"name {domain.name}"
    return f"user {shown.name} in {place}"


async def _prove_password(identity: Identity, shown: PasswordUser, caller: Caller) -> _Proven:
    def find(tx: Session) -> tuple[str, int, str | None]:
        row = _user(tx, shown)
        return (row.id, row.token_generation, row.password_hash) if row else ("", 0, None)

    user_id, generation, hashed = await identity.store.read(find)
    who = f"user {user_id}" if user_id else _describe(shown)
    if not await callers.prove(identity, who, shown.password, hashed, caller):
        raise Unauthenticated(INVALID, private=f"a wrong password for {user_id or 'nobody'}")
    return _Proven(user_id, generation, ("password",))


async def _prove_token(identity: Identity, text: str, now: datetime) -> _Proven:
    token = tokens.read(identity, text)

    def check(tx: Session) -> int:
        tokens.check(tx, token, now)
        return users.generation(tx, token.user_id)

    generation = await identity.store.read(check)
    if token.credential_id:
        raise Forbidden(
            "Using a token of an application credential, a delegated token, to get "
            "another token is not allowed."
        )
    methods = tuple(dict.fromkeys(("token", *token.methods)))
    return _Proven(
        token.user_id,
        generation,
        methods,
        expires_at=token.expires_at,
        audit_ids=token.audit_ids,
        whole=token.whole,
    )


async def _prove_credential(identity: Identity, shown: CredentialProof, caller: Caller) -> _Proven:
    def find(tx: Session) -> tuple[_Proven | None, str | None]:
        row = _find_credential(tx, shown)
        if row is None:
            return None, None
        generation = users.generation(tx, row.user_id)
        scope, methods = f"project:{row.project_id}", ("application_credential",)
        return _Proven(row.user_id, generation, methods, scope, row.id), row.secret_hash

    proven, hashed = await identity.store.read(find)
    who = _describe(shown)
    if not await callers.prove(identity, who, shown.secret, hashed, caller) or proven is None:
        raise Unauthenticated(INVALID, private="a wrong application credential")
    return proven


def _find_credential(tx: Session, shown: CredentialProof) -> ApplicationCredentialRow | None:
    if shown.id is not None:
        return tx.get(ApplicationCredentialRow, shown.id)
    if shown.name is None or shown.user is None:
        raise Invalid("Expecting to find id, or name and user, in application_credential.")
    user = _user(tx, shown.user)
    return tx.scalar(
        select(ApplicationCredentialRow).where(
            ApplicationCredentialRow.user_id == (user.id if user else ""),
            ApplicationCredentialRow.name == shown.name,
        )
    )


def _scope(tx: Session, proven: _Proven, asked: Scope | str | None, now: datetime) -> str:
    if asked is None:
        return _default_scope(tx, proven.user_id, now)
    if isinstance(asked, str):
        if asked != "unscoped":
            raise Invalid(f"Invalid input for scope: '{asked}' is not a scope.")
        return ""
    wanted = (asked.project, asked.domain, asked.system, asked.unscoped)
    if sum(one is not None for one in wanted) > 1:
        raise Invalid(
            "A token is for one scope: a project, a domain, the system or none. Name one of them."
        )
    if asked.project is not None:
        return f"project:{_project_id(tx, asked.project)}"
    if asked.domain is not None:
        return f"domain:{_domain_id(tx, asked.domain)}"
    if asked.system is not None and asked.system.all:
        return SYSTEM
    if asked.unscoped is None:
        raise Invalid("Expecting to find project, domain, system or unscoped in scope.")
    return ""


def _default_scope(tx: Session, user_id: str, now: datetime) -> str:
    project_id = tx.scalar(select(UserRow.default_project_id).where(UserRow.id == user_id))
    if project_id is None:
        return ""
    scope = f"project:{project_id}"
    try:
        standing.find(tx, user_id, scope, now=now)
    except Unauthenticated:
        return ""  # a default that no longer serves leaves the token without a scope
    return scope


def _project_id(tx: Session, asked: UserRef) -> str:
    if asked.id is not None:
        return asked.id
    if asked.name is None or asked.domain is None:
        raise Invalid("Expecting to find id, or name and domain, in project.")
    row = projects.by_name(tx, asked.name, _domain_id(tx, asked.domain))
    if row is None:
        raise Unauthenticated(INVALID, private=f"no project {asked.name}")
    return row.id


def _domain_id(tx: Session, asked: DomainRef) -> str:
    if asked.id is not None:
        return asked.id
    if asked.name is None:
        raise Invalid("Expecting to find id or name in domain.")
    return tx.scalar(select(DomainRow.id).where(DomainRow.name == asked.name)) or ""


def _user(tx: Session, asked: UserRef) -> UserRow | None:
    if asked.id is not None:
        try:
            return users.find(tx, asked.id)
        except NotFound:
            return None
    if asked.name is None:
        raise Invalid("Expecting to find id or name in user.")
    if asked.domain is None:
        raise Invalid("Expecting to find domain in user.")
    return users.by_name(tx, asked.name, _domain_id(tx, asked.domain))
