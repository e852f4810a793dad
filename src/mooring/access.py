"""Who may log in to a new cloud: passwords made at the first start, and the clients' `clouds.yaml`.

The passwords are on disk before the database knows their hashes: a start that is killed in between
finds them again, and nobody is locked out.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mooring import typed
from mooring.clients.identity import Login
from mooring.errors import Invalid
from mooring.identity import bootstrap
from mooring.secret_file import write_secret
from mooring.web import faces

if TYPE_CHECKING:
    from mooring.config import Settings
    from mooring.identity.service import Identity

PASSWORDS = "passwords.json"
CLOUDS = "clouds.yaml"
_ENTROPY_BYTES = 32
_CLOUDS = {"mooring": ("admin", "admin"), "demo": ("demo", "demo")}


async def ensure(
    identity: Identity, settings: Settings, public_url: str, catalogue: Mapping[str, str]
) -> dict[str, Login]:
    """Let everybody who must exist exist; return the logins of the service users by their name.

    `catalogue` has the types of our services, and where each is below the public URL.
    """
    state = settings.state_path
    passwords = _load(state / PASSWORDS)
    names = ("admin", "demo", *bootstrap.SERVICE_USERS)
    missing = {
        name: secrets.token_urlsafe(_ENTROPY_BYTES) for name in names if name not in passwords
    }
    if missing:
        passwords |= missing
        write_secret(state / PASSWORDS, msgspec.json.format(msgspec.json.encode(passwords)))
    urls = {kind: f"{public_url}/{path}" for kind, path in catalogue.items()}
    await bootstrap.ensure(identity, urls=urls, region=settings.region, known=passwords)
    write_secret(state / CLOUDS, _clouds(passwords, public_url, settings.region))
    return {
        name: Login(user_name=name, password=passwords[name], project_name="service")
        for name in bootstrap.SERVICE_USERS
    }


def read_login(state: Path) -> tuple[str, Login]:
    """Return the URL and the administrator's login of the cloud in a state directory.

    Raises Invalid when there is no cloud, or it cannot be read.
    """
    import yaml

    try:
        text = (state / CLOUDS).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        message = f"There is no cloud in {state}. Start one with `mooring up`, or name another."
        raise Invalid(message) from error
    except OSError as error:
        message = f"The cloud in {state} cannot be read: {error.strerror}."
        raise Invalid(message) from error
    auth: dict[str, str] = yaml.safe_load(text)["clouds"]["mooring"]["auth"]
    login = Login(
        user_name=auth["username"], password=auth["password"], project_name=auth["project_name"]
    )
    return auth["auth_url"].removesuffix("/identity/v3"), login


def _load(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    try:
        return typed.decode(path.read_bytes(), dict[str, str])
    except (OSError, msgspec.DecodeError) as error:
        message = f"{path} cannot be read: {error}. Restore it; without it nobody can log in."
        raise Invalid(message) from error


def _clouds(passwords: Mapping[str, str], public_url: str, region: str) -> bytes:
    import yaml

    clouds: dict[str, Any] = {
        cloud: {
            "auth": {
                "auth_url": f"{public_url}/identity/v3",
                "username": user,
                "password": passwords[user],
                "project_name": project,
                "user_domain_name": "Default",
                "project_domain_name": "Default",
            },
            "region_name": region,
            "identity_api_version": "3",
            # `server add share` would ask for the newest that python-manilaclient knows.
            "shared_file_system_api_version": ".".join(map(str, faces.SHARE.maximum)),
        }
        for cloud, (user, project) in _CLOUDS.items()
    }
    return yaml.safe_dump({"clouds": clouds}, sort_keys=False).encode()
