from __future__ import annotations

import pytest

from mooring.fence.operation import Operation
from tests.volume.dock import SERVER, Dock

pytestmark = pytest.mark.anyio


def operation(step: str = "reserve", generation: int = 5) -> Operation:
    return Operation("12345678-1234-4234-8234-123456789abc", step, 1, generation)


async def test_the_same_operation_reserves_once(dock: Dock) -> None:
    volume_id = await dock.make()
    body = {"attachment": {"volume_uuid": volume_id, "instance_uuid": SERVER}}
    first = await dock.ask("POST", "/attachments", body, who="compute", operation=operation())
    again = await dock.ask("POST", "/attachments", body, who="compute", operation=operation())
    assert again.json == first.json
    assert len(await dock.attachments(volume_id)) == 1


async def test_burying_tells_what_was_made_and_refuses_what_comes_late(dock: Dock) -> None:
    volume_id = await dock.make()
    body = {"attachment": {"volume_uuid": volume_id, "instance_uuid": SERVER}}
    made = await dock.ask("POST", "/attachments", body, who="compute", operation=operation())
    path = f"/mooring/operations/{operation().key}"
    buried = await dock.ask("DELETE", path, who="compute")
    assert buried.json == {"made": [made.json["attachment"]["id"]]}
    path = f"/mooring/operations/{operation('later').key}"
    assert (await dock.ask("DELETE", path, who="compute")).json == {"made": []}
    late = await dock.ask("POST", "/attachments", body, who="compute", operation=operation("later"))
    assert late.status == 410


async def test_an_older_owner_changes_nothing(dock: Dock) -> None:
    volume_id = await dock.make()
    attachment_id = (await dock.reserve(volume_id)).json["attachment"]["id"]
    newer = await dock.connect(attachment_id, operation=operation("connect", 7))
    assert newer.status == 200
    older = await dock.detach(attachment_id, operation=operation("delete", 6))
    assert older.status == 412
    assert await dock.attachments(volume_id) == {attachment_id: "attaching"}
