"""The identity service as an application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.identity.api import (
    application_credentials,
    auth,
    catalogue,
    grants,
    projects,
    roles,
    users,
)
from mooring.identity.policy import RULES
from mooring.identity.tokens import LocalValidator
from mooring.web import faces
from mooring.web.app import build_app
from mooring.web.policy import Policy

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.types import ASGIApp

    from mooring.identity.service import Identity


def build(identity: Identity, *, public_url: str, policy_file: Path | None = None) -> ASGIApp:
    """Return the application; `public_url` is its root (`http://host/identity`).

    Raises Invalid when the policy file cannot be read.
    """
    files = (auth, projects, users, roles, grants, application_credentials, catalogue)
    return build_app(
        identity,
        [file.api for file in files],
        face=faces.IDENTITY,
        validator=LocalValidator(identity),
        policy=Policy(RULES, file=policy_file),
        public_url=public_url,
        identity_url=f"{public_url.rstrip('/')}/v3",
    )
