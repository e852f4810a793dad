"""Who notifications are handed to, and in what form."""

from __future__ import annotations

from typing import Any, Protocol

import structlog

from mooring.notify.outbox import Notification

log = structlog.get_logger()


class Target(Protocol):
    """Takes notifications one at a time, in order, each perhaps more than once."""

    async def deliver(self, notification: Notification) -> None:
        """Hand one over; return once it is taken.

        Raises Unavailable when it may be taken later, Invalid when it never will be.
        """
        ...

    async def close(self) -> None:
        """Let go of what was opened to deliver."""
        ...


def envelope(notification: Notification) -> dict[str, Any]:
    """Return what goes over the wire: the members of oslo.messaging's notifications."""
    return {
        "message_id": notification.message_id,
        "publisher_id": notification.publisher,
        "event_type": notification.event_type,
        "priority": notification.priority,
        "timestamp": notification.created_at.strftime("%Y-%m-%d %H:%M:%S.%f"),
        "payload": notification.payload,
    }


class LogTarget:
    """Writes each notification into the log, as one line."""

    async def deliver(self, notification: Notification) -> None:
        tell = log.error if notification.priority == "ERROR" else log.info
        tell("notification", **envelope(notification))

    async def close(self) -> None:
        """Nothing was opened."""
