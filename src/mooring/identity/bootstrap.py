"""What must exist before anybody can log in. Source: facts/identity_image_placement.md 4.5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from mooring.identity import bodies, grants, own, passwords, projects, users
from mooring.identity.grants import USER, Grant, Holder
from mooring.identity.own import DOMAIN_ID, SERVICE_PROJECT, SERVICE_ROLES, SERVICE_USERS
from mooring.identity.standing import SYSTEM
from mooring.identity.tables import (
    DomainRow,
    EndpointRow,
    ImplicationRow,
    ProjectRow,
    RegionRow,
    RoleRow,
    ServiceRow,
    UserRow,
)
from mooring.store.prepared import Among, Prepared

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.identity.service import Identity

PROJECTS = ("admin", SERVICE_PROJECT, "demo")
ROLES = ("admin", "manager", "member", "reader", "service")
_IMPLIED = (("admin", "manager"), ("manager", "member"), ("member", "reader"))
SERVICE_NAMES = {
    "identity": "keystone",
    "image": "glance",
    "placement": "placement",
    "block-storage": "cinder",
    "shared-file-system": "manila",
    "compute": "nova",
}
"""The catalogue's types of our services, and the names that people know them by."""

_INTERFACES = ("public", "internal", "admin")
_PEOPLE = {"admin": ("admin", "admin"), "demo": ("demo", "member")}
_hashes: Among[tuple[str, str | None]] = Among(
    lambda names: select(UserRow.name, UserRow.password_hash).where(
        UserRow.domain_id == DOMAIN_ID, UserRow.name.in_(names)
    )
)
_endpoints: Prepared[tuple[str, str, str, bool]] = Prepared(
    select(ServiceRow.type, EndpointRow.interface, EndpointRow.url, EndpointRow.ours).join(
        EndpointRow, EndpointRow.service_id == ServiceRow.id
    )
)


async def ensure(
    identity: Identity,
    *,
    urls: Mapping[str, str],
    region: str = "RegionOne",
    known: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Make what is missing, and return the passwords that were set, by user name.

    `urls` are the catalogue's, by type (`{"compute": "http://host/compute/v2.1"}`): each gets a
    public, an internal and an admin endpoint, kept up to date until somebody changes it. `known`
    are the passwords that an earlier call returned and the caller still has: whoever is made gets
    that one, and a service user who has another one too. A service user whose password nobody
    knows gets a new one, and what it works with is given back to it. People are made once, where
    nobody is yet: whoever was deleted or renamed stays so. Their passwords are never changed.
    """
    now = identity.clock.now()
    if await identity.store.read(lambda tx: _is_complete(tx, urls, region, known or {})):
        return {}
    return await identity.change(lambda tx: _Bootstrap(tx, now).run(urls, region, known or {}))


def has_users(tx: Session) -> bool:
    """Whether anybody was ever made here."""
    return tx.scalar(select(UserRow.id).limit(1)) is not None


def restore_admin(tx: Session, password: str, *, now: datetime) -> None:
    """Let the user `admin` rule the cloud as after the first start, with another password.

    What was deleted, renamed, disabled or taken of it is made anew; its tokens of before end.
    """
    _Bootstrap(tx, now).restore_admin(password)


def hashes(tx: Session, names: Sequence[str]) -> dict[str, str]:
    """Return the hashes of the passwords that people of the first domain have, by their names."""
    return {name: hashed for name, hashed in _hashes.all(tx, names) if hashed is not None}


def own_urls(tx: Session) -> dict[str, str]:
    """Return the catalogue's URLs by type, of endpoints that nobody has changed."""
    rows = tx.execute(
        select(ServiceRow.type, EndpointRow.url)
        .join(EndpointRow, EndpointRow.service_id == ServiceRow.id)
        .where(EndpointRow.ours)
    )
    return {row[0]: row[1] for row in rows}


def _is_complete(
    tx: Session, urls: Mapping[str, str], region: str, known: Mapping[str, str]
) -> bool:
    """Tell whether nothing is to be done, as on every start but the first."""
    hashed = hashes(tx, SERVICE_USERS)
    if not all(_knows(hashed, name, known) for name in SERVICE_USERS):
        return False
    # Under a release of before they could be taken what they work with.
    if not own.may_work(tx) or tx.get(RegionRow, region) is None:
        return False
    rows = _endpoints.all(tx)
    found = {(row[0], row[1]) for row in rows if not row[3] or row[2] == urls.get(row[0])}
    return found >= {(kind, interface) for kind in urls for interface in _INTERFACES}


def _knows(hashed: Mapping[str, str], name: str, known: Mapping[str, str]) -> bool:
    return name in hashed and passwords.check_random(known.get(name, ""), hashed[name])


class _Bootstrap:
    """One run, in one transaction."""

    def __init__(self, tx: Session, now: datetime) -> None:
        self.tx, self.now = tx, now
        self.passwords: dict[str, str] = {}

    def run(self, urls: Mapping[str, str], region: str, known: Mapping[str, str]) -> dict[str, str]:
        is_first = not has_users(self.tx)
        if self.tx.get(DomainRow, DOMAIN_ID) is None:
            self._add(DomainRow(id=DOMAIN_ID, name="Default", description="", enabled=True))
        roles = {name: self._role(name) for name in ROLES}
        for prior, implied in _IMPLIED:
            self.tx.merge(
                ImplicationRow(prior_role_id=roles[prior], implied_role_id=roles[implied])
            )
        # Later on people are who somebody has let be: one who is missing was sent away.
        if is_first:
            self._people(known)
        for name in SERVICE_USERS:
            user_id, is_new = self._user(name, known)
            if not is_new and not _knows(hashes(self.tx, [name]), name, known):
                self._set_password(user_id, name, known.get(name))
            self._grant(user_id, self._scope(SERVICE_PROJECT), *SERVICE_ROLES)
        self._catalogue(urls, region)
        return self.passwords

    def restore_admin(self, password: str) -> None:
        user_id, is_new = self._user("admin", {"admin": password})
        if not is_new:
            self._set_password(user_id, "admin", password)
        self._let_rule(user_id)

    def _people(self, known: Mapping[str, str]) -> None:
        for name, (project, role) in _PEOPLE.items():
            user_id, _ = self._user(name, known)
            self._grant(user_id, self._scope(project), role)
            if name == "admin":
                self._let_rule(user_id)

    def _let_rule(self, user_id: str) -> None:
        for scope in (self._scope("admin"), SYSTEM):
            self._grant(user_id, scope, "admin")

    def _add(self, row: Any) -> None:
        self.tx.add(row)
        self.tx.flush()

    def _role(self, name: str) -> str:
        role_id = self.tx.scalar(select(RoleRow.id).where(RoleRow.name == name))
        if role_id is None:
            role_id = bodies.new_id()
            self._add(RoleRow(id=role_id, name=name, description=None, immutable=True, extra={}))
        return role_id

    def _scope(self, project: str) -> str:
        """Return the scope of a project by its name, which is made or enabled as it needs."""
        row = projects.by_name(self.tx, project, DOMAIN_ID)
        if row is None:
            row = ProjectRow(
                id=bodies.new_id(),
                name=project,
                domain_id=DOMAIN_ID,
                description="",
                enabled=True,
                tags=[],
                extra={},
            )
            self._add(row)
        row.enabled = True
        return f"project:{row.id}"

    def _user(self, name: str, known: Mapping[str, str]) -> tuple[str, bool]:
        row = users.by_name(self.tx, name, DOMAIN_ID)
        if row is not None:
            row.enabled = True
            return row.id, False
        row = UserRow(
            id=bodies.new_id(),
            name=name,
            domain_id=DOMAIN_ID,
            enabled=True,
            default_project_id=None,
            password_hash=None,
            tokens_from=self.now,
            extra={},
        )
        self._add(row)
        self._set_password(row.id, name, known.get(name))
        return row.id, True

    def _set_password(self, user_id: str, name: str, known: str | None = None) -> None:
        password, hashed = passwords.make_secret()
        if known is not None:
            password, hashed = known, passwords.hash_random(known)
        users.set_password(self.tx, user_id, hashed)
        self.passwords[name] = password

    def _grant(self, user_id: str, scope: str, *roles: str) -> None:
        for role in roles:
            grants.give(self.tx, Grant(Holder(USER, user_id), scope, self._role(role)))

    def _catalogue(self, urls: Mapping[str, str], region: str) -> None:
        if self.tx.get(RegionRow, region) is None:
            self._add(RegionRow(id=region, description="", parent_region_id=None, extra={}))
        for kind, url in urls.items():
            rows = self.tx.scalars(
                select(EndpointRow)
                .join(ServiceRow, ServiceRow.id == EndpointRow.service_id)
                .where(ServiceRow.type == kind)
            ).all()
            for row in rows:
                if row.ours:
                    row.url, row.region_id = url, region
            missing = [name for name in _INTERFACES if name not in {row.interface for row in rows}]
            if missing:
                service_id = self._service(kind)
                for interface in missing:
                    self._endpoint(service_id, interface, url, region)

    def _service(self, kind: str) -> str:
        service_id = self.tx.scalar(select(ServiceRow.id).where(ServiceRow.type == kind))
        if service_id is None:
            service_id = bodies.new_id()
            name = SERVICE_NAMES.get(kind, kind)
            row = ServiceRow(
                id=service_id, type=kind, name=name, description=None, enabled=True, extra={}
            )
            self._add(row)
        return service_id

    def _endpoint(self, service_id: str, interface: str, url: str, region: str) -> None:
        row = EndpointRow(
            id=bodies.new_id(),
            service_id=service_id,
            region_id=region,
            interface=interface,
            url=url,
            enabled=True,
            ours=True,
            extra={},
        )
        self._add(row)
