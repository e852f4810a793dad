"""Sealing: what must rest in a database and be read by nobody but this installation."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mooring.errors import Bug, Invalid
from mooring.secret_file import ensure_secret

_NONCE_BYTES = 12
_KEY_BYTES = 32


class Sealer:
    """AES-256-GCM with one key. A sealed text is the nonce followed by the ciphertext."""

    def __init__(self, key: bytes) -> None:
        self._aead = AESGCM(key)

    def seal(self, text: bytes) -> bytes:
        """Return the text sealed."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._aead.encrypt(nonce, text, None)

    def open(self, sealed: bytes) -> bytes:
        """Return what was sealed. Raises Bug when another key sealed it or it was changed."""
        try:
            return self._aead.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], None)
        except InvalidTag as error:
            message = (
                "A sealed value cannot be read: the key in the state directory is another one."
            )
            raise Bug(message) from error


def load_sealer(path: Path) -> Sealer:
    """Return the sealer whose key lies at `path`, made with mode 0600 when it is missing.

    Of several processes that make one at the same time all have the first one's. Raises Invalid for
    a file that holds no key, Unavailable when it cannot be made.
    """
    key = ensure_secret(path, lambda: AESGCM.generate_key(_KEY_BYTES * 8))
    if len(key) != _KEY_BYTES:
        raise Invalid(f"{path} holds no key. Restore it from a backup (docs/backup.md).")
    return Sealer(key)
