"""The log as a target: one line for each notification."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from structlog.testing import capture_logs

from mooring.notify.outbox import Notification
from mooring.notify.targets import LogTarget

pytestmark = pytest.mark.anyio


async def test_a_notification_is_a_line_and_a_failure_an_error() -> None:
    one = Notification(
        id=1,
        message_id="m",
        event_type="instance.reboot.error",
        publisher="nova-compute:h1",
        priority="ERROR",
        payload={"a": 1},
        created_at=datetime(2026, 1, 2, tzinfo=UTC),
    )
    with capture_logs() as lines:
        await LogTarget().deliver(one)

    (line,) = lines
    assert line["log_level"] == "error"
    assert (line["event"], line["event_type"]) == ("notification", "instance.reboot.error")
    assert (line["publisher_id"], line["payload"]) == ("nova-compute:h1", {"a": 1})
