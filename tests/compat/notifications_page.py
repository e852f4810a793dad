"""The page of every notification, from what the laws hold of them."""

from __future__ import annotations

from tests.laws.scenarios import EVENTS
from tests.laws.told import Event

TITLE = """\
# Notifications, each with its moment

Made from what the laws hold of notifications by `make golden`. What is promised of them, what they
carry and how they are had: [notifications](../notifications.md).
"""
HEADING = """\
| event | when |
|---|---|
"""
KINDS = {
    "Volumes": ("volume", "scheduler"),
    "Backups of volumes": ("backup",),
    "Shares": ("share",),
    "Servers": ("instance", "compute_task"),
}
"""By the first word of their names."""


def notifications_page() -> str:
    """Return the text of the page."""
    parts = [TITLE]
    for kind, words in KINDS.items():
        rows = [_row(event) for event in EVENTS if event.event.partition(".")[0] in words]
        parts.append(f"\n## {kind}\n\n{HEADING}{''.join(rows)}")
    return "".join(parts)


def _row(event: Event) -> str:
    first, *more = [f".{phase}" for phase in event.phases] or [""]
    names = [f"`{event.event}{first}`", *(f"`{phase}`" for phase in more)]
    return f"| {', '.join(names)}{' (ERROR)' if event.is_error else ''} | {event.when} |\n"
