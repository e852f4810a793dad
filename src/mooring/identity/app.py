"""The identity service, declared."""

from __future__ import annotations

from mooring.identity.api import (
    application_credentials,
    auth,
    catalogue,
    domains,
    grants,
    groups,
    implications,
    project_tags,
    projects,
    renewal,
    roles,
    unified_limits,
    users,
)
from mooring.identity.growth import BOUNDS
from mooring.identity.keys import TOKEN_KEYS, TokenKeys
from mooring.identity.policy import RULES
from mooring.identity.renewal import keep_following
from mooring.identity.service import Identity
from mooring.service import Loop, Service, Surroundings
from mooring.web import faces


def _open(near: Surroundings) -> Identity:
    return Identity(
        store=near.store,
        clock=near.clock,
        keys=TokenKeys(near.settings.state_path / TOKEN_KEYS),
        sealer=near.sealer,
        token_lifetime_s=near.settings.token_lifetime_s,
    )


SERVICE = Service(
    name="identity",
    kind="identity",
    entry="identity/v3",
    face=faces.IDENTITY,
    apis=(
        auth.api,
        domains.api,
        projects.api,
        project_tags.api,
        users.api,
        groups.api,
        roles.api,
        implications.api,
        grants.api,
        application_credentials.api,
        catalogue.api,
        unified_limits.api,
        renewal.api,
    ),
    rules=RULES,
    open=_open,
    bounds=BOUNDS,
    loops=(Loop(keep_following),),
)
