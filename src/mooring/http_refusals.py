"""Callers that a listener turns away stand in the log, and whoever scans it cannot fill that."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

import structlog

from mooring import http_limits

if TYPE_CHECKING:
    from collections.abc import Mapping

log = structlog.get_logger()
_TURNED_AWAY = "a stranger was turned away"
_MORE = "more strangers were turned away"
_SHOWN: Mapping[int, str] = {
    10: "a certificate that has ended",
    18: "a certificate that certifies itself",
    19: "a certificate of another authority",
    20: "a certificate of another authority",
    26: "a certificate that is not for asking, such as every host of this cloud has",
}
"""What was shown, by OpenSSL's number for what is wrong with it (X509_V_ERR_*)."""


class Refusals:
    """Those of one listener or service: so many are told in a while, and of the others how many.

    For one loop. `told` and `more` are what the log calls one of them, and those beside them.

    What a caller showed is not known where the handshake failed: OpenSSL keeps no such certificate.
    """

    def __init__(self, told: str = _TURNED_AWAY, more: str = _MORE) -> None:
        self._names = told, more
        self._told = self._left_out = 0
        self._ending: asyncio.TimerHandle | None = None

    def tell(self, **facts: object) -> None:
        """Say that somebody was turned away, unless many were just now."""
        if self._ending is None:
            loop = asyncio.get_running_loop()
            self._ending = loop.call_later(http_limits.HTTP_REFUSALS_S, self.end)
        if self._told < http_limits.HTTP_REFUSALS:
            self._told += 1
            log.warning(self._names[0], **facts)
        else:
            self._left_out += 1

    def end(self) -> None:
        """Say how many were left out, and tell of the next ones again."""
        if self._ending is not None:
            self._ending.cancel()
        if self._left_out:
            log.warning(self._names[1], left_out=self._left_out)
        self._told = self._left_out = 0
        self._ending = None

    def tell_handshake(self, error: BaseException, peer: object) -> None:
        """Say whose handshake failed, and why. Who only went away was not turned away."""
        if isinstance(error, ssl.SSLCertVerificationError):
            shown = _SHOWN.get(error.verify_code, "a certificate")
            self.tell(caller=address_of(peer), reason=error.verify_message, shown=shown)
        elif isinstance(error, ssl.SSLError):
            self.tell(caller=address_of(peer), reason=error.reason or str(error), **_shown(error))
        elif isinstance(error, ConnectionAbortedError):
            self.tell(caller=address_of(peer), reason=str(error))


def _shown(error: ssl.SSLError) -> dict[str, str]:
    is_bare = error.reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE"
    return {"shown": "no certificate"} if is_bare else {}


def address_of(peer: object) -> str:
    """Return an address as a socket tells it, "" for one that is gone already."""
    parts: Any = peer
    if not isinstance(peer, tuple) or len(parts) < 2:
        return ""
    return f"[{parts[0]}]:{parts[1]}" if ":" in str(parts[0]) else f"{parts[0]}:{parts[1]}"
