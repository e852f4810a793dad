"""How the rows of identity look to clients. Source: facts/identity_image_placement.md 4.2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from mooring.identity.service import Identity
    from mooring.identity.tables import (
        ApplicationCredentialRow,
        DomainRow,
        EndpointRow,
        GroupRow,
        LimitRow,
        ProjectRow,
        RegionRow,
        RegisteredLimitRow,
        RoleRow,
        ServiceRow,
        UserRow,
    )
    from mooring.web.api import Call


_NO_ZONE = "%Y-%m-%dT%H:%M:%S.%f"


def domain(call: Call[Identity], row: DomainRow) -> dict[str, Any]:
    """Return a domain."""
    return {
        **row.extra,
        "id": row.id,
        "name": row.name,
        "description": row.description,
        "enabled": row.enabled,
        "tags": row.tags,
        "options": {},
        "links": _self(call, f"/domains/{row.id}"),
    }


def project(call: Call[Identity], row: ProjectRow) -> dict[str, Any]:
    """Return a project."""
    return {
        **row.extra,
        "id": row.id,
        "name": row.name,
        "domain_id": row.domain_id,
        "description": row.description,
        "enabled": row.enabled,
        "parent_id": row.domain_id,
        "is_domain": False,
        "tags": row.tags,
        "options": {},
        "links": _self(call, f"/projects/{row.id}"),
    }


def user(call: Call[Identity], row: UserRow) -> dict[str, Any]:
    """Return a user, without anything about its password."""
    shown: dict[str, Any] = {
        **row.extra,
        "id": row.id,
        "name": row.name,
        "domain_id": row.domain_id,
        "enabled": row.enabled,
        "password_expires_at": None,
        "options": {},
        "links": _self(call, f"/users/{row.id}"),
    }
    if row.default_project_id is not None:
        shown["default_project_id"] = row.default_project_id
    return shown


def group(call: Call[Identity], row: GroupRow) -> dict[str, Any]:
    """Return a group."""
    return {
        **row.extra,
        "id": row.id,
        "name": row.name,
        "domain_id": row.domain_id,
        "description": row.description,
        "links": _self(call, f"/groups/{row.id}"),
    }


def role(call: Call[Identity], row: RoleRow) -> dict[str, Any]:
    """Return a role."""
    return {
        **row.extra,
        "id": row.id,
        "name": row.name,
        "domain_id": None,
        "description": row.description,
        "options": {"immutable": True} if row.immutable else {},
        "links": _self(call, f"/roles/{row.id}"),
    }


def region(call: Call[Identity], row: RegionRow) -> dict[str, Any]:
    """Return a region."""
    return {
        **row.extra,
        "id": row.id,
        "description": row.description,
        "parent_region_id": row.parent_region_id,
        "links": _self(call, f"/regions/{row.id}"),
    }


def service(call: Call[Identity], row: ServiceRow) -> dict[str, Any]:
    """Return a service."""
    shown: dict[str, Any] = {
        **row.extra,
        "id": row.id,
        "type": row.type,
        "name": row.name or "",
        "enabled": row.enabled,
        "links": _self(call, f"/services/{row.id}"),
    }
    if row.description is not None:
        shown["description"] = row.description
    return shown


def endpoint(call: Call[Identity], row: EndpointRow) -> dict[str, Any]:
    """Return an endpoint."""
    return {
        **row.extra,
        "id": row.id,
        "interface": row.interface,
        "region_id": row.region_id,
        "region": row.region_id,
        "service_id": row.service_id,
        "url": row.url,
        "enabled": row.enabled,
        "links": _self(call, f"/endpoints/{row.id}"),
    }


def registered_limit(call: Call[Identity], row: RegisteredLimitRow) -> dict[str, Any]:
    """Return a registered limit."""
    return {
        "id": row.id,
        "service_id": row.service_id,
        "region_id": row.region_id,
        "resource_name": row.resource_name,
        "default_limit": row.default_limit,
        "description": row.description,
        "links": _self(call, f"/registered_limits/{row.id}"),
    }


def limit(call: Call[Identity], row: LimitRow) -> dict[str, Any]:
    """Return a limit of a project or of a domain."""
    return {
        "id": row.id,
        "service_id": row.registered.service_id,
        "region_id": row.registered.region_id,
        "project_id": row.project_id,
        "domain_id": row.domain_id,
        "resource_name": row.registered.resource_name,
        "resource_limit": row.resource_limit,
        "description": row.description,
        "links": _self(call, f"/limits/{row.id}"),
    }


def credential(
    call: Call[Identity], row: ApplicationCredentialRow, roles: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return an application credential, without its secret. `roles` are all roles, by id."""
    return {
        "id": row.id,
        "name": row.name,
        "description": row.description,
        "user_id": row.user_id,
        "project_id": row.project_id,
        "system": None,
        # Without a zone, as clients that are strict about it read it of credentials alone.
        "expires_at": row.expires_at.strftime(_NO_ZONE) if row.expires_at else None,
        "unrestricted": row.unrestricted,
        "roles": [roles[role_id] for role_id in row.role_ids if role_id in roles],
        "links": _self(call, f"/application_credentials/{row.id}"),
    }


def time(moment: datetime) -> str:
    """Return a time as tokens show it: six digits of a second, and Z."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _self(call: Call[Identity], path: str) -> dict[str, str]:
    return {"self": call.url(path)}
