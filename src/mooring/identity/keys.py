"""The keys of tokens: one file in the state directory, one key a line, and their rotation.

The first line is the next key, the second the one that makes tokens, the rest only read them.
The next key can already be read by every process before any makes a token with it, so processes
that share the file need not change over at the same moment.
"""

from __future__ import annotations

from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from mooring.errors import Invalid, Unauthenticated
from mooring.secret_file import ensure_secret, write_secret

TOKEN_KEYS = "token-keys"  # noqa: S105  (a file's name)
"""The file that has them, in the state directory."""
KEPT = 4
"""Keys in the file: the next, the present and two old ones, so a token outlives two rotations."""


class TokenKeys:
    """Encrypts and decrypts with the keys of one file, made with mode 0600 when it is missing.

    Raises Invalid when the file cannot be read as keys, Unavailable when it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        ensure_secret(path, new_keys)
        self._stamp, self._make, self._read = self._load()
        self.sealed = b""
        """What the database had when it was looked at last; empty before."""

    def encrypt(self, content: bytes) -> str:
        """Return `content` as text that is safe in a URL and a header."""
        self._reload()
        return self._make.encrypt(content).rstrip(b"=").decode("ascii")

    def decrypt(self, token: str) -> bytes:
        """Return what was encrypted. Raises Unauthenticated for anything else."""
        padded = token.encode("ascii", "replace") + b"=" * (-len(token) % 4)
        try:
            return self._read.decrypt(padded)
        except InvalidToken as error:
            if not self._reload():
                raise Unauthenticated("The token is not valid.") from error
        try:
            return self._read.decrypt(padded)
        except InvalidToken as error:
            raise Unauthenticated("The token is not valid.") from error

    def content(self) -> bytes:
        """Return what the file has."""
        return self._path.read_bytes()

    def replace(self, content: bytes) -> None:
        """Go on with the keys of such a file, which is written. Raises Unavailable.

        Another process may do the same in the same directory at the same moment.
        """
        write_secret(self._path, content)
        self._reload()

    def _load(self) -> tuple[tuple[int, int], Fernet, MultiFernet]:
        status = self._path.stat()
        try:
            keys = [Fernet(key) for key in self._path.read_bytes().split()]
        except ValueError as error:
            raise Invalid(f"The file {self._path} holds what is not a key.") from error
        if len(keys) < 2:
            raise Invalid(f"The file {self._path} holds fewer than two keys.")
        present, first = keys[1], keys[0]
        return (
            (status.st_ino, status.st_mtime_ns),
            present,
            MultiFernet([present, first, *keys[2:]]),
        )

    def _reload(self) -> bool:
        """Read the file again when another process has changed it; tell whether it had."""
        status = self._path.stat()
        if (status.st_ino, status.st_mtime_ns) == self._stamp:
            return False
        self._stamp, self._make, self._read = self._load()
        return True


def rotated(content: bytes) -> bytes:
    """Return such a file whose next key is the present one, and a new one the next.

    The oldest is forgotten.
    """
    keys = [Fernet.generate_key(), *content.split()]
    return b"\n".join(keys[:KEPT]) + b"\n"


def new_keys() -> bytes:
    """Return the content of a file with new keys."""
    return b"\n".join([Fernet.generate_key(), Fernet.generate_key()]) + b"\n"
