"""Hashes of passwords and secrets, made and checked in threads.

What people choose is hashed with bcrypt, over a SHA-256 so that length does not matter. What we
made ourselves, from 256 random bits or more, cannot be guessed: one salted SHA-256 is enough, and
the login of a service user costs nothing.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable

import bcrypt

from mooring import limits
from mooring.errors import Invalid
from mooring.identity.turns import FairTurns

_BCRYPT, _RANDOM = "bcrypt:", "sha256:"


class Hasher:
    """Hashes and checks. `rounds` is bcrypt's cost, a power of two: 10 takes about 50 ms."""

    def __init__(self, rounds: int = 10) -> None:
        self._rounds = rounds
        self._turns = FairTurns(limits.IDENTITY_HASHES, limits.IDENTITY_LOGINS_WAITING)
        self._nobody = ""
        """What is compared with where there is no hash, so that it takes as long."""

    async def hash(self, password: str) -> str:
        """Return the hash of a password that a person chose.

        Raises Invalid for a long one, Unavailable when too many are asked for at once.
        """
        if not 0 < len(password) <= limits.IDENTITY_PASSWORD_CHARS:
            raise Invalid(
                f"A password has between 1 and {limits.IDENTITY_PASSWORD_CHARS} characters."
            )
        async with self._turns.turn(""):
            return await asyncio.to_thread(_slow_hash, password, self._rounds)

    async def check(
        self,
        password: str,
        hashed: str | None,
        *,
        address: str = "",
        admit: Callable[[], Awaitable[None]] | None = None,
    ) -> bool:
        """Tell whether `password` is the one that was hashed.

        Without a hash this takes as long as with one, so the time does not tell who exists; nor
        does it for a secret of ours, of which only the right one is told at once. Who asks waits in
        the row of his `address`; `admit` raises when it is his turn and he wants, or is to have,
        none. Raises Unavailable when too many wait in that row.
        """
        if hashed is not None and hashed.startswith(_RANDOM):
            if check_random(password, hashed):
                return True
            hashed = None
        if len(password) > limits.IDENTITY_PASSWORD_CHARS:
            return False
        async with self._turns.turn(address):
            if admit is not None:
                await admit()
            if hashed is None and not self._nobody:
                secret = secrets.token_hex()
                self._nobody = await asyncio.to_thread(_slow_hash, secret, self._rounds)
            right = await asyncio.to_thread(_check_slow, password, hashed or self._nobody)
        return right and hashed is not None


def make_secret(size_bytes: int = 32) -> tuple[str, str]:
    """Return a new random secret, safe in a URL, and its hash."""
    secret = secrets.token_urlsafe(size_bytes)
    return secret, hash_random(secret)


def hash_random(secret: str) -> str:
    """Return the hash of a secret of ours, one that nobody chose."""
    salt = secrets.token_hex(16)
    return f"{_RANDOM}{salt}:{_digest(salt, secret)}"


def _slow_hash(password: str, rounds: int) -> str:
    hashed = bcrypt.hashpw(_shorten(password), bcrypt.gensalt(rounds))
    return _BCRYPT + hashed.decode("ascii")


def _check_slow(password: str, hashed: str) -> bool:
    return bcrypt.checkpw(_shorten(password), hashed.removeprefix(_BCRYPT).encode("ascii"))


def check_random(secret: str, hashed: str) -> bool:
    """Tell whether `secret` is the one that `hash_random` hashed; False for another hash."""
    salt, _, digest = hashed.removeprefix(_RANDOM).partition(":")
    return hashed.startswith(_RANDOM) and hmac.compare_digest(digest, _digest(salt, secret))


def _shorten(password: str) -> bytes:
    return base64.b64encode(hashlib.sha256(password.encode("utf-8", "surrogatepass")).digest())


def _digest(salt: str, secret: str) -> str:
    return hashlib.sha256(f"{salt}:{secret}".encode("utf-8", "surrogatepass")).hexdigest()
