"""What the identity service remembers. Source: facts/identity_image_placement.md 4.2.

Ids are 32 hexadecimal digits, as clients of Keystone expect them; domains and regions have names
for ids. `extra` holds the attributes that a client gave and identity does not know: it gives them
back as they came.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from mooring.store.base import service_base

Base = service_base("identity")

_DOMAIN = "domains.id"
_USER = "users.id"
_GROUP = "user_groups.id"
_ROLE = "roles.id"
_NO_REGION = text("region_id IS NULL")


class DomainRow(Base):
    """A domain. Tokens for it of another `token_generation` are no longer valid."""

    __tablename__ = "domains"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    description: Mapped[str] = mapped_column(default="")
    enabled: Mapped[bool] = mapped_column(default=True)
    tags: Mapped[list[str]] = mapped_column(default=list, server_default="[]")
    token_generation: Mapped[int] = mapped_column(default=0, server_default="0")
    extra: Mapped[dict[str, Any]] = mapped_column(default=dict, server_default="{}")


class ProjectRow(Base):
    """A project. Tokens of another `token_generation` are no longer valid."""

    __tablename__ = "projects"
    __table_args__ = (UniqueConstraint("domain_id", "name"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    domain_id: Mapped[str] = mapped_column(ForeignKey(_DOMAIN))
    description: Mapped[str] = mapped_column(default="")
    enabled: Mapped[bool] = mapped_column(default=True)
    tags: Mapped[list[str]] = mapped_column(default=list)
    token_generation: Mapped[int] = mapped_column(default=0, server_default="0")
    extra: Mapped[dict[str, Any]] = mapped_column(default=dict)


class UserRow(Base):
    """A user. Tokens of another `token_generation` are no longer valid.

    `tokens_from` does the same for tokens of before generations were counted; nothing changes it.
    """

    __tablename__ = "users"
    __table_args__ = (UniqueConstraint("domain_id", "name"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    domain_id: Mapped[str] = mapped_column(ForeignKey(_DOMAIN))
    enabled: Mapped[bool] = mapped_column(default=True)
    default_project_id: Mapped[str | None]
    password_hash: Mapped[str | None]
    tokens_from: Mapped[datetime]
    token_generation: Mapped[int] = mapped_column(default=0, server_default="0")
    extra: Mapped[dict[str, Any]] = mapped_column(default=dict)


class GroupRow(Base):
    """A group of users, who have the roles that it is given."""

    __tablename__ = "user_groups"
    __table_args__ = (UniqueConstraint("domain_id", "name"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    domain_id: Mapped[str] = mapped_column(ForeignKey(_DOMAIN))
    description: Mapped[str] = mapped_column(default="")
    extra: Mapped[dict[str, Any]] = mapped_column(default=dict)


class MemberRow(Base):
    """A user in a group, whichever domain each of them is of."""

    __tablename__ = "group_members"
    __table_args__ = (Index("ix_group_members_user_id", "user_id"),)

    group_id: Mapped[str] = mapped_column(ForeignKey(_GROUP), primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey(_USER), primary_key=True)


class RoleRow(Base):
    """A role. An immutable one is neither changed nor deleted."""

    __tablename__ = "roles"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    description: Mapped[str | None]
    immutable: Mapped[bool] = mapped_column(default=False)
    extra: Mapped[dict[str, Any]] = mapped_column(default=dict)


class ImplicationRow(Base):
    """Whoever has the prior role has the implied one as well."""

    __tablename__ = "implications"

    prior_role_id: Mapped[str] = mapped_column(ForeignKey(_ROLE), primary_key=True)
    implied_role_id: Mapped[str] = mapped_column(ForeignKey(_ROLE), primary_key=True)


class GrantRow(Base):
    """A user's role on a scope: `project:<id>`, `domain:<id>` or `system:all`."""

    __tablename__ = "grants"
    __table_args__ = (Index("ix_grants_scope", "scope"), Index("ix_grants_role_id", "role_id"))

    user_id: Mapped[str] = mapped_column(ForeignKey(_USER), primary_key=True)
    scope: Mapped[str] = mapped_column(primary_key=True)
    role_id: Mapped[str] = mapped_column(ForeignKey(_ROLE), primary_key=True)


class GroupGrantRow(Base):
    """A group's role on a scope, written as in a user's."""

    __tablename__ = "group_grants"
    __table_args__ = (
        Index("ix_group_grants_scope", "scope"),
        Index("ix_group_grants_role_id", "role_id"),
    )

    group_id: Mapped[str] = mapped_column(ForeignKey(_GROUP), primary_key=True)
    scope: Mapped[str] = mapped_column(primary_key=True)
    role_id: Mapped[str] = mapped_column(ForeignKey(_ROLE), primary_key=True)


class ApplicationCredentialRow(Base):
    """A secret that stands for some of a user's roles on one project."""

    __tablename__ = "application_credentials"
    __table_args__ = (
        UniqueConstraint("user_id", "name"),
        Index("ix_application_credentials_project_id", "project_id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    description: Mapped[str | None]
    user_id: Mapped[str] = mapped_column(ForeignKey(_USER))
    project_id: Mapped[str]
    role_ids: Mapped[list[str]]
    secret_hash: Mapped[str]
    expires_at: Mapped[datetime | None]
    unrestricted: Mapped[bool]


class RegionRow(Base):
    """A region of the catalogue."""

    __tablename__ = "regions"

    id: Mapped[str] = mapped_column(primary_key=True)
    description: Mapped[str] = mapped_column(default="")
    parent_region_id: Mapped[str | None] = mapped_column(ForeignKey("regions.id"))
    extra: Mapped[dict[str, Any]] = mapped_column(default=dict)


class ServiceRow(Base):
    """A service of the catalogue."""

    __tablename__ = "services"

    id: Mapped[str] = mapped_column(primary_key=True)
    type: Mapped[str]
    name: Mapped[str | None]
    description: Mapped[str | None]
    enabled: Mapped[bool] = mapped_column(default=True)
    extra: Mapped[dict[str, Any]] = mapped_column(default=dict)


class EndpointRow(Base):
    """One URL of a service. `ours` while it was set by the bootstrap and by nobody since."""

    __tablename__ = "endpoints"
    __table_args__ = (
        CheckConstraint("interface IN ('public', 'internal', 'admin')", name="interface"),
        Index("ix_endpoints_service_id", "service_id"),
        Index("ix_endpoints_region_id", "region_id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    service_id: Mapped[str] = mapped_column(ForeignKey("services.id"))
    region_id: Mapped[str | None] = mapped_column(ForeignKey("regions.id"))
    interface: Mapped[str]
    url: Mapped[str]
    enabled: Mapped[bool] = mapped_column(default=True)
    ours: Mapped[bool] = mapped_column(default=False)
    extra: Mapped[dict[str, Any]] = mapped_column(default=dict)


class RegisteredLimitRow(Base):
    """How much of a service's resource each project may have by default; -1: any amount.

    One without a region holds in all of them; a database takes no two of those for the same.
    """

    __tablename__ = "registered_limits"
    __table_args__ = (
        UniqueConstraint("service_id", "region_id", "resource_name"),
        Index(
            "one_registered_limit_without_region",
            "service_id",
            "resource_name",
            unique=True,
            sqlite_where=_NO_REGION,
            postgresql_where=_NO_REGION,
        ),
        Index("ix_registered_limits_region_id", "region_id"),
        CheckConstraint("default_limit >= -1", name="default_limit"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    service_id: Mapped[str] = mapped_column(ForeignKey("services.id"))
    region_id: Mapped[str | None] = mapped_column(ForeignKey("regions.id"))
    resource_name: Mapped[str]
    default_limit: Mapped[int]
    description: Mapped[str | None]


class LimitRow(Base):
    """What one project, or one domain, may have instead of what is registered; -1: any amount."""

    __tablename__ = "limits"
    __table_args__ = (
        UniqueConstraint("registered_limit_id", "project_id"),
        UniqueConstraint("registered_limit_id", "domain_id"),
        Index("ix_limits_project_id", "project_id"),
        Index("ix_limits_domain_id", "domain_id"),
        CheckConstraint("(project_id IS NULL) <> (domain_id IS NULL)", name="owner"),
        CheckConstraint("resource_limit >= -1", name="resource_limit"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    registered_limit_id: Mapped[str] = mapped_column(ForeignKey("registered_limits.id"))
    project_id: Mapped[str | None] = mapped_column(ForeignKey("projects.id"))
    domain_id: Mapped[str | None] = mapped_column(ForeignKey(_DOMAIN))
    resource_limit: Mapped[int]
    description: Mapped[str | None]
    registered: Mapped[RegisteredLimitRow] = relationship()


class RevocationRow(Base):
    """A token that was ended, by its audit id; those made from it end with it.

    So is a role or a membership that was taken (`losses`), as long as tokens of before may come.
    """

    __tablename__ = "revocations"
    __table_args__ = (Index("ix_revocations_forget_at", "forget_at"),)

    audit_id: Mapped[str] = mapped_column(primary_key=True)
    forget_at: Mapped[datetime]


class SecretRow(Base):
    """What all processes of the cloud have to know and nobody else, sealed."""

    __tablename__ = "secrets"

    name: Mapped[str] = mapped_column(primary_key=True)
    sealed: Mapped[bytes]
