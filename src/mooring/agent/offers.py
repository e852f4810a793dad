"""What this host gives away of its guests' own disks, and to whom: whoever has a key.

Offers live in memory, and die with the agent. Of a key only the digest is kept, so nobody reads one
here; who lost one asks for another.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections import deque
from pathlib import Path

from msgspec import Struct

from mooring.agent.blocks import Measured, measure
from mooring.agent.hypervisor import Hypervisor
from mooring.agent_api.copies import OfferedDisk
from mooring.errors import Conflict
from mooring.fence.threads import run_to_end

_KEY_BYTES = 32
KEY = re.compile(r"[A-Za-z0-9_-]{43}")
_KEYS = 8
"""Of one offer that are good: an answer that was lost, or came twice, spoils nothing."""


class _Given(Struct, frozen=True):
    """A file as it is offered, with what tells that nobody has changed it since."""

    path: Path
    disk: OfferedDisk
    stamp: tuple[int, int, int]


class Standing:
    """One offer."""

    def __init__(self, server_id: str, operation_key: str) -> None:
        self.server_id, self.operation_key = server_id, operation_key
        self.given: list[_Given] = []
        self._keys: deque[bytes] = deque(maxlen=_KEYS)

    @property
    def disks(self) -> list[OfferedDisk]:
        """What is offered."""
        return [given.disk for given in self.given]

    def make_key(self) -> str:
        """Return a new key."""
        key = secrets.token_urlsafe(_KEY_BYTES)
        self._keys.append(_digest(key))
        return key

    def is_opened_by(self, digest: bytes) -> bool:
        """Whether this is the digest of one of its keys, found in the same time whatever it is."""
        is_one = False
        for known in self._keys:
            is_one |= hmac.compare_digest(digest, known)
        return is_one


class Offers:
    """The offers of one host. For one event loop."""

    def __init__(self) -> None:
        self._standing: dict[str, Standing] = {}

    def __bool__(self) -> bool:
        return bool(self._standing)

    async def make(self, hypervisor: Hypervisor, server_id: str, operation_key: str) -> Standing:
        """Offer the disks of a guest, or find them offered by the same operation.

        Raises NotFound; Conflict when the guest is not off, or the offer is withdrawn meanwhile.
        """
        before = self._standing.get(server_id)
        standing = Standing(server_id, operation_key)
        if before is not None and before.operation_key == operation_key and before.given:
            standing = before
        self._standing[server_id] = standing
        known = {given.path: given for given in standing.given}
        try:
            standing.given = await _look(hypervisor, server_id, known)
            # It may have been started while its disks were read.
            await hypervisor.local_disks(server_id)
        except BaseException:
            self._drop(standing)
            raise
        if not self.stands(standing):
            raise Conflict(
                f"The disks of server {server_id} were taken back while they were read. Stop the "
                "server, and ask again."
            )
        return standing

    def withdraw(self, server_id: str) -> None:
        """Offer a guest's disks no more, and forget the keys; nothing when none are offered."""
        self._standing.pop(server_id, None)

    def stands(self, standing: Standing) -> bool:
        """Whether an offer has not been withdrawn."""
        return self._standing.get(standing.server_id) is standing

    def find(self, key: str) -> Standing | None:
        """Return the offer that a key is for, found in the same time wherever it stands."""
        digest = _digest(key)
        found = [one for one in self._standing.values() if one.is_opened_by(digest)]
        return found[0] if found else None

    def _drop(self, standing: Standing) -> None:
        if self.stands(standing):
            self.withdraw(standing.server_id)


def is_unchanged(given: _Given) -> bool:
    """Whether a file is the one that was offered, and nobody has written to it. Blocking."""
    try:
        return _stamp(given.path) == given.stamp
    except OSError:
        return False


async def _look(hypervisor: Hypervisor, server_id: str, known: dict[Path, _Given]) -> list[_Given]:
    """Return what there is to give; what was read before, and has not changed, is not read."""
    found: list[_Given] = []
    for local in await hypervisor.local_disks(server_id):
        before = known.get(local.path)
        if before is not None and await run_to_end(lambda one=before: is_unchanged(one)):
            found.append(before)
            continue
        stamp = await run_to_end(lambda path=local.path: _stamp(path))
        disk = _describe(local.name, local.image_id, await measure(local.path))
        found.append(_Given(local.path, disk, stamp))
    return found


def _describe(name: str, image_id: str, measured: Measured) -> OfferedDisk:
    return OfferedDisk(
        name=name,
        size_bytes=measured.size_bytes,
        data_bytes=measured.data_bytes,
        digest=measured.digest,
        image_id=image_id,
    )


def _stamp(path: Path) -> tuple[int, int, int]:
    seen = path.stat()
    return seen.st_ino, seen.st_size, seen.st_mtime_ns


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
