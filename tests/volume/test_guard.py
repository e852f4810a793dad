from __future__ import annotations

import pytest

from mooring.errors import Unavailable
from tests.volume.dock import SERVER, UNKNOWN, Dock

pytestmark = pytest.mark.anyio


async def test_a_user_does_not_delete_what_a_server_uses(dock: Dock) -> None:
    volume_id = await dock.make()
    attachment_id = await dock.attach(volume_id)
    for who in ("member", "admin"):
        answer = await dock.detach(attachment_id, who=who)
        assert answer.status == 409
        assert "ConflictNovaUsingAttachment" in answer.fault
        assert SERVER in answer.fault
    assert (await dock.detach(attachment_id, who="member", service="member")).status == 401
    assert await dock.status(volume_id) == "in-use"
    assert (await dock.detach(attachment_id, who="member", service="compute")).status == 200


async def test_whatever_attachment_the_server_shows_it_is_not_deleted(dock: Dock) -> None:
    volume_id = await dock.make()
    attachment_id = await dock.attach(volume_id)
    dock.compute.listed[SERVER, volume_id] = UNKNOWN
    assert (await dock.detach(attachment_id, who="member")).status == 409


async def test_what_no_server_lists_may_be_deleted(dock: Dock) -> None:
    volume_id = await dock.make()
    attachment_id = await dock.attach(volume_id)
    dock.compute.listed.clear()
    assert (await dock.detach(attachment_id, who="member")).status == 200


async def test_the_guard_fails_closed(dock: Dock) -> None:
    volume_id = await dock.make()
    attachment_id = await dock.attach(volume_id)
    dock.compute.failure = Unavailable("compute does not answer")
    assert (await dock.detach(attachment_id, who="member")).status == 503
    assert await dock.attachments(volume_id) == {attachment_id: "attached"}
