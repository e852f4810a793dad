"""`mooring db restore-admin`: a way in again for whoever has the machine, and no administrator."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from typing import TYPE_CHECKING

import msgspec

from mooring import installation, state_dir, typed
from mooring.access import CLOUDS, PASSWORDS
from mooring.clock import RealClock
from mooring.errors import Invalid
from mooring.identity import bootstrap
from mooring.saga.seal import load_sealer
from mooring.services import IDENTITY
from mooring.store.base import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from mooring.config import Settings
    from mooring.store.base import Store

_ENTROPY_BYTES = 32


async def restore_admin(settings: Settings, say: Callable[[str], None]) -> None:
    """Make the user `admin` an administrator again, with a new password.

    Raises Invalid where no cloud is, Conflict while one uses the state directory.
    """
    with ExitStack() as stack:
        if not (settings.state_path / installation.SEAL_KEY).exists():
            raise installation.no_cloud(settings.state_path)
        if not settings.database:
            stack.callback(state_dir.hold(settings.state_path).release)
        location = settings.database or str(settings.state_path)
        store = await open_store(location, IDENTITY.name)
        try:
            await _restore(store, settings)
        finally:
            await store.close()
    say(
        f"`admin` is an administrator again, by the password in {settings.state_path / PASSWORDS}. "
        f"Start the cloud: {CLOUDS} has it then, too."
    )


async def _restore(store: Store, settings: Settings) -> None:
    password = secrets.token_urlsafe(_ENTROPY_BYTES)

    def complete(kept: bytes | None) -> bytes:
        known = typed.decode(kept, dict[str, str]) if kept is not None else {}
        return msgspec.json.format(msgspec.json.encode({**known, "admin": password}))

    if not await store.read(lambda tx: installation.is_kept(tx, PASSWORDS)):
        raise Invalid(
            "This cloud has never been started by this release. Nothing was changed; start and "
            "stop it once, then ask again."
        )
    # Kept before the database has its hash, as at the first start: nobody is locked out between.
    sealer = load_sealer(settings.state_path / installation.SEAL_KEY)
    await installation.agree(store, sealer, settings.state_path / PASSWORDS, complete)
    now = RealClock().now()
    await store.write(lambda tx: bootstrap.restore_admin(tx, password, now=now))
