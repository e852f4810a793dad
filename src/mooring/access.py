"""Who may log in to a new cloud: passwords made at the first start, and the clients' `clouds.yaml`.

The passwords are kept before the database knows their hashes: a start that is killed in between
finds them again, and nobody is locked out.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mooring import installation, listener_tls, typed
from mooring.clients.identity import Login, ServiceUser
from mooring.errors import Invalid, Unauthenticated, Unavailable
from mooring.identity import bootstrap
from mooring.identity.own import SERVICE_PROJECT, SERVICE_USERS
from mooring.secret_file import write_secret
from mooring.web import faces

if TYPE_CHECKING:
    from mooring.config import Settings
    from mooring.identity.service import Identity
    from mooring.saga.seal import Sealer

PASSWORDS = "passwords.json"
CLOUDS = "clouds.yaml"
_ANNOUNCED = "announced"
"""A file with the URLs that this directory's processes have had, the last one last."""
_ANNOUNCED_KEPT = 8
_ENTROPY_BYTES = 32
_CLOUDS = {"mooring": ("admin", "admin"), "demo": ("demo", "demo")}
_PEOPLE = tuple(user for user, _ in _CLOUDS.values())


async def ensure(
    identity: Identity,
    settings: Settings,
    public_url: str,
    catalogue: Mapping[str, str],
    sealer: Sealer,
) -> dict[str, Login]:
    """Let everybody who must exist exist; return the logins of the service users by their name.

    `catalogue` has the types of our services, and where each is below the public URL. Raises
    Invalid when this process has another key than the cloud, or nobody knows its passwords, or it
    would take the catalogue away from other processes.
    """
    state = settings.state_path
    passwords = await _passwords(identity, sealer, state / PASSWORDS)
    urls = {kind: f"{public_url}/{path}" for kind, path in catalogue.items()}
    if settings.database and not settings.public_url:
        await _refuse_foreign(identity, state, urls)
    _announce(state, public_url)
    await bootstrap.ensure(identity, urls=urls, region=settings.region, known=passwords)
    write_secret(state / CLOUDS, _clouds(passwords, public_url, settings))
    return {
        name: Login(user_name=name, password=passwords[name], project_name=SERVICE_PROJECT)
        for name in SERVICE_USERS
    }


async def _passwords(identity: Identity, sealer: Sealer, file: Path) -> dict[str, str]:
    """Return everybody's first password, as all processes of the cloud know it."""
    own = _load(file)
    if own is None and await identity.store.read(bootstrap.has_users):
        kept = await identity.store.read(lambda tx: installation.is_kept(tx, PASSWORDS))
        own = None if kept else _lost(file)

    right = await _right_ones(identity, own or {})

    def complete(kept: bytes | None) -> bytes:
        known = (own or {}) if kept is None else typed.decode(kept, dict[str, str]) | right
        names = (*_PEOPLE, *SERVICE_USERS)
        made = {name: secrets.token_urlsafe(_ENTROPY_BYTES) for name in names if name not in known}
        return msgspec.json.format(msgspec.json.encode({**known, **made}))

    content = await installation.agree(identity.store, sealer, file, complete)
    return typed.decode(content, dict[str, str])


async def _right_ones(identity: Identity, own: Mapping[str, str]) -> dict[str, str]:
    """Return the passwords of people that a file has as they are now: they may change their own.

    So a person who changed a password writes it into the file, and commands log in with it.
    """
    known = await identity.store.read(lambda tx: bootstrap.hashes(tx, _PEOPLE))
    return {
        name: own[name]
        for name, hashed in known.items()
        if name in own and await identity.hasher.check(own[name], hashed)
    }


def _lost(file: Path) -> dict[str, str]:
    raise Invalid(
        f"{file} is missing, and the cloud in this directory has users whose passwords stood there."
        " Restore it from a backup (docs/backup.md). If there is none, write {} into it: services "
        "get new passwords, and people keep theirs, which clouds.yaml then does not know."
    )


async def _refuse_foreign(identity: Identity, state: Path, urls: Mapping[str, str]) -> None:
    """Raise Invalid when the catalogue has URLs of a process that has another state directory.

    Those that this directory's own process wrote before it came back on another port are its own.
    """
    found = await identity.store.read(bootstrap.own_urls)
    others = sorted(url for kind, url in found.items() if url != urls.get(kind, url))
    own = [f"{each}/" for each in _announced(state)]
    foreign = [url for url in others if not url.startswith(tuple(own))]
    if foreign:
        raise Invalid(
            f"Other processes of this cloud say that clients reach it at {foreign[0]}. Give all of "
            "them, and this one, the same setting public_url: where a client reaches any of them."
        )


def _announced(state: Path) -> list[str]:
    """Return the URLs under which this directory's processes said that they are reached."""
    file = state / _ANNOUNCED
    if file.exists():
        return file.read_text("utf-8").split()
    # The release before wrote none.
    return [read_login(state)[0]] if (state / CLOUDS).exists() else []


def _announce(state: Path, public_url: str) -> None:
    """Note a URL before the catalogue has it: a start that is killed in between knows its own."""
    before = [each for each in _announced(state) if each != public_url]
    lines = [*before, public_url][-_ANNOUNCED_KEPT:]
    write_secret(state / _ANNOUNCED, "".join(f"{each}\n" for each in lines).encode())


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
        message = (
            f"The cloud in {state} cannot be read: {error.strerror}. Nothing was asked of it; give "
            "the command as the user to whom it belongs, or name another with --state-dir."
        )
        raise Invalid(message) from error
    auth: dict[str, str] = yaml.safe_load(text)["clouds"]["mooring"]["auth"]
    login = Login(
        user_name=auth["username"], password=auth["password"], project_name=auth["project_name"]
    )
    return auth["auth_url"].removesuffix("/identity/v3"), login


async def token_of(user: ServiceUser, url: str, state: Path) -> str:
    """Return an administrator's token for the running cloud of a state directory.

    Raises Unavailable, with the way out, when nothing answers or its password is another one.
    """
    try:
        return await user.token()
    except Unavailable as error:
        if isinstance(error.__cause__, Unauthenticated):
            message = (
                f"The cloud at {url} does not take the administrator's login of {state / CLOUDS}: "
                "somebody has changed its password, or has deleted, renamed or disabled it. Write "
                f"the new password there and into {state / PASSWORDS}, or stop the cloud and have "
                "`mooring db restore-admin` make the user `admin` anew, and ask again."
            )
        else:
            message = (
                f"Nothing answers at {url}, where the cloud of {state} was served last. Start it "
                "with `mooring up`, as it is started otherwise, and ask again."
            )
        raise Unavailable(message, private=error.private or error.public) from error


def _load(path: Path) -> dict[str, str] | None:
    if not path.exists():
        return None
    try:
        return typed.decode(path.read_bytes(), dict[str, str])
    except (OSError, msgspec.DecodeError) as error:
        message = f"{path} cannot be read: {error}. Restore it; without it nobody can log in."
        raise Invalid(message) from error


def read_authority(state: Path) -> str:
    """Return the file by which the cloud's certificate is known, empty for the system's own."""
    import yaml

    text = (state / CLOUDS).read_text(encoding="utf-8")
    return yaml.safe_load(text)["clouds"]["mooring"].get("cacert", "")


def _clouds(passwords: Mapping[str, str], public_url: str, settings: Settings) -> bytes:
    import yaml

    authority = listener_tls.authority(settings)
    trust = {"cacert": str(authority)} if authority else {}
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
            "region_name": settings.region,
            **trust,
            "identity_api_version": "3",
            # `server add share` would ask for the newest that python-manilaclient knows.
            "shared_file_system_api_version": ".".join(map(str, faces.SHARE.maximum)),
        }
        for cloud, (user, project) in _CLOUDS.items()
    }
    # The one in C, where PyYAML was built with it: every start writes the file.
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return yaml.dump({"clouds": clouds}, Dumper=dumper, sort_keys=False).encode()
