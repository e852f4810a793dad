"""Snapshots of attached files, as a volume service asks for them: checks, order, and every end."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from mooring.clients.transport import Forward, Request, Response
from mooring.errors import Conflict, Unavailable
from mooring.fence.operation import HEADER
from mooring.limits import COMPUTE_SNAPSHOT_POLL_S, COMPUTE_SNAPSHOT_RECORD_S
from mooring.saga.engine import VISIBLE_WAIT_S
from tests.answers import Answer
from tests.compute.cloud import ComputeCloud
from tests.compute.snapshot_desk import SnapshotDesk, is_of_snapshot

pytestmark = pytest.mark.anyio
_HOSTS = "/os-services?binary=nova-compute"
SNAPSHOT = "5c0b1f5e-4a54-4a39-8d0a-0d6c1f0a9a51"
PATH = "/os-assisted-volume-snapshots"


class Stage:
    """A server with a volume, and a desk that keeps its snapshots."""

    def __init__(
        self, cloud: ComputeCloud, desk: SnapshotDesk, server_id: str, volume_id: str
    ) -> None:
        self.cloud, self.desk = cloud, desk
        self.server_id, self.volume_id = server_id, volume_id
        self.base, self.file = f"volume-{volume_id}", f"volume-{volume_id}.{SNAPSHOT}"

    async def create(self, user: str = "compute", **changes: Any) -> Answer:
        """Ask for a snapshot; `changes` to the parts of the body."""
        info = {"snapshot_id": SNAPSHOT, "type": "qcow2", "new_file": self.file}
        info |= changes.pop("info", {})
        operation = changes.pop("operation", "")
        body = {"snapshot": {"volume_id": self.volume_id, "create_info": info} | changes}
        return await self._ask("POST", PATH, body, user, operation)

    async def delete(self, user: str = "compute", **changes: Any) -> Answer:
        """Ask for a merge into the newest file; `changes` to what is asked."""
        operation = changes.pop("operation", "")
        info = {"volume_id": self.volume_id, "type": "qcow2", "file_to_merge": None}
        info |= {"merge_target_file": None} | changes
        path = f"{PATH}/{SNAPSHOT}?delete_info={quote(json.dumps(info))}"
        return await self._ask("DELETE", path, None, user, operation)

    async def file_in_use(self) -> str:
        """The name of the file that the guest writes to."""
        guest = await self.cloud.known_agents["host1"].show_server(self.server_id)
        assert guest is not None
        (disk,) = guest.disks
        return disk.path.rpartition("/")[2]

    async def begin_to(self, action: str) -> int:
        """Ask for what needs the server or its volume; return the status code."""
        if action == "detach":
            return (await self.cloud.detach(self.server_id, self.volume_id)).status
        value = {"imageRef": self.cloud.image_id} if action == "rebuild" else None
        path = f"/servers/{self.server_id}/action"
        answer = await self.cloud.ask("POST", path, {action: value})
        return answer.status

    async def begin(self, status: str = "creating") -> None:
        """Let the volume service be about to do something with the snapshot."""
        self.desk.statuses[SNAPSHOT] = status

    async def _ask(self, method: str, path: str, body: Any, user: str, operation: str) -> Answer:
        headers = {"X-Service-Token": user if user == "compute" else "", HEADER: operation}
        return await self.cloud.ask(method, path, body, user=user, version="", headers=headers)


@pytest.fixture
async def stage(cloud: ComputeCloud) -> Stage:
    """A running server with a volume."""
    desk, forward = SnapshotDesk(), cloud.deliver

    async def deliver(request: Request, onward: Forward) -> Response:
        if is_of_snapshot(request.path):
            status, body = desk.answer(request.method, request.path, request.content)
            data = b"" if body is None else json.dumps(body).encode()
            return Response(status, data, {"content-type": "application/json"})
        return await forward(request, onward)

    cloud.deliver = deliver
    server_id, volume_id = await cloud.make_attached()
    return Stage(cloud, desk, server_id, volume_id)


async def test_the_guest_goes_on_with_the_new_file_and_the_volume_service_is_told(
    stage: Stage,
) -> None:
    await stage.begin()
    answer = await stage.create()
    assert answer.status == 200
    assert answer.body == {"snapshot": {"id": SNAPSHOT, "volumeId": stage.volume_id}}
    await stage.cloud.settle()
    assert await stage.file_in_use() == stage.file
    assert (stage.desk.told, stage.desk.statuses[SNAPSHOT]) == (["creating"], "available")


async def test_files_are_merged_and_the_volume_service_is_told(stage: Stage) -> None:
    await stage.begin()
    await stage.create()
    await stage.cloud.settle()
    await stage.begin("deleting")
    answer = await stage.delete()
    assert (answer.status, answer.content) == (204, b"")
    await stage.cloud.settle()
    assert await stage.file_in_use() == stage.file
    assert (stage.desk.told[1:], stage.desk.statuses) == (["deleting"], {})


async def test_the_body_gives_back_the_id_that_it_was_given(stage: Stage) -> None:
    await stage.begin()
    answer = await stage.create(info={"id": "any words"})
    assert answer.body["snapshot"]["id"] == "any words"


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", ".x", "..", "", "x\0"])
async def test_a_file_elsewhere_is_refused(stage: Stage, name: str) -> None:
    assert (await stage.create(info={"new_file": name})).status == 400
    assert (await stage.delete(file_to_merge=name)).status == 400
    wanted = {"file_to_merge": stage.file, "merge_target_file": name}
    assert (await stage.delete(**wanted)).status == 400
    await stage.cloud.settle()
    assert (await stage.file_in_use(), stage.desk.told) == (stage.base, [])


async def test_what_makes_no_sense_is_refused(stage: Stage) -> None:
    for info in ({"type": "raw"}, {"snapshot_id": "a/b"}, {"new_file": 7}, {"more": 1}):
        assert (await stage.create(info=info)).status == 400, info
    assert (await stage.create(more=1)).status == 400
    assert (await stage.delete(type="raw")).status == 400
    assert (await stage.delete(merge_target_file=stage.base)).status == 400
    for query in ("", "?delete_info=", "?delete_info=7", "?delete_info=[]", "?delete_info={"):
        answer = await stage.cloud.ask("DELETE", f"{PATH}/{SNAPSHOT}{query}", user="compute")
        assert answer.status == 400, query


async def test_a_volume_that_no_server_has_is_404(stage: Stage) -> None:
    other = await stage.cloud.make_volume()
    assert (await stage.create(volume_id=other)).status == 404
    assert (await stage.delete(volume_id=other)).status == 404


async def test_a_volume_for_several_servers_is_refused(stage: Stage) -> None:
    shared = await stage.cloud.make_shared_volume()
    await stage.cloud.attach(stage.server_id, shared)
    await stage.cloud.settle()
    assert (await stage.create(volume_id=shared)).status == 400


async def test_a_user_may_not_ask(stage: Stage) -> None:
    assert (await stage.create(user="member")).status == 403
    assert (await stage.delete(user="member")).status == 403


async def test_a_busy_server_is_409(stage: Stage) -> None:
    stage.cloud.hypervisor().knobs.hold("power_off")
    assert await stage.cloud.act(stage.server_id, "os-stop") == 202
    assert (await stage.create()).status == 409
    assert (await stage.delete()).status == 409
    stage.cloud.hypervisor().knobs.release("power_off")
    await stage.cloud.settle()


async def test_a_host_that_refuses_leaves_the_former_file_and_the_reason_is_told(
    stage: Stage,
) -> None:
    await stage.begin()
    stage.cloud.hypervisor().knobs.fail("snapshot_disk", Conflict("It will not go."))
    await stage.create()
    await stage.cloud.settle()
    assert (await stage.file_in_use(), stage.desk.told) == (stage.base, ["error"])


async def test_a_merge_that_fails_is_told(stage: Stage) -> None:
    await stage.begin("deleting")
    stage.cloud.hypervisor().knobs.fail("merge_disk", Conflict("It will not go."))
    await stage.delete()
    await stage.cloud.settle()
    assert stage.desk.statuses == {SNAPSHOT: "error_deleting"}


async def test_a_snapshot_that_nobody_wants_any_more_is_taken_back(stage: Stage) -> None:
    await stage.begin("error")
    await stage.create()
    await stage.cloud.settle()
    assert (await stage.file_in_use(), stage.desk.statuses[SNAPSHOT]) == (stage.base, "error")


async def test_a_snapshot_that_is_unknown_is_taken_back(stage: Stage) -> None:
    await stage.create()
    await stage.cloud.settle()
    assert await stage.file_in_use() == stage.base


async def test_every_end_is_told_until_it_is_taken(stage: Stage) -> None:
    await stage.begin()
    stage.cloud.hypervisor().knobs.fail("snapshot_disk", Conflict("It will not go."))
    stage.desk.unavailable = 20
    await stage.create()
    await stage.cloud.settle()
    assert stage.desk.statuses[SNAPSHOT] == "error"


@pytest.mark.parametrize("point", ["snapshot_disk", ""])
async def test_who_may_not_tell_its_end_ends_all_the_same(stage: Stage, point: str) -> None:
    await stage.begin()
    if point:
        stage.cloud.hypervisor().knobs.fail(point, Conflict("It will not go."))
    stage.desk.forbids = True
    await stage.create()
    await stage.cloud.settle()
    assert (await stage.file_in_use(), stage.desk.told) == (stage.base, [])
    stage.desk.forbids = False
    await stage.create()
    await stage.cloud.settle()
    assert await stage.file_in_use() == stage.file


async def test_nobody_connects_the_volume_before_its_new_file_is_noted(stage: Stage) -> None:
    await stage.begin()
    stage.desk.finishes = False
    await stage.create()
    await stage.cloud.compute.sagas.schedule.quiet()
    rebooting = await stage.cloud.meanwhile(
        stage.cloud.act(stage.server_id, "reboot", {"type": "HARD"})
    )
    detaching = await stage.cloud.meanwhile(
        stage.cloud.detach(stage.server_id, stage.volume_id), turns=1000
    )
    stage.cloud.clock.advance(VISIBLE_WAIT_S)
    assert (await rebooting, (await detaching).status) == (409, 400)
    stage.desk.statuses[SNAPSHOT] = "available"
    await stage.cloud.settle()
    assert await stage.file_in_use() == stage.file


@pytest.mark.parametrize("action", ["os-stop", "rebuild", "detach"])
async def test_a_server_is_free_as_soon_as_its_snapshot_is_seen(stage: Stage, action: str) -> None:
    await stage.begin()
    stage.desk.finishes = False
    await stage.create()
    await stage.cloud.compute.sagas.schedule.quiet()
    stage.desk.statuses[SNAPSHOT] = "available"
    asked = await stage.cloud.meanwhile(stage.begin_to(action), turns=1000)
    stage.cloud.clock.advance(COMPUTE_SNAPSHOT_POLL_S)
    assert await asked == 202
    await stage.cloud.settle()
    assert stage.desk.told == ["creating"]


async def test_a_snapshot_that_is_never_noted_is_taken_back(stage: Stage) -> None:
    await stage.begin()
    stage.desk.finishes = False
    await stage.create()
    await stage.cloud.settle()
    assert (await stage.file_in_use(), stage.desk.statuses[SNAPSHOT]) == (stage.base, "error")


async def test_what_was_accepted_stays_however_long_its_recording_takes(stage: Stage) -> None:
    await stage.begin()
    stage.desk.finishes, stage.desk.progress = False, "95%"
    await stage.create()
    await stage.cloud.compute.sagas.settle(2 * COMPUTE_SNAPSHOT_RECORD_S)
    assert (await stage.file_in_use(), stage.desk.told) == (stage.file, ["creating"])
    # Ours may fail behind that point: the overlay stays part of the disk then.
    stage.desk.statuses[SNAPSHOT] = "error"
    await stage.cloud.settle()
    await stage.cloud.look_at_hosts()
    assert (await stage.file_in_use(), stage.desk.told) == (stage.file, ["creating"])
    assert await stage.cloud.act(stage.server_id, "reboot", {"type": "HARD"}) == 202


async def test_burying_the_operation_ends_a_switch_that_hangs(stage: Stage) -> None:
    await stage.begin()
    stage.cloud.hypervisor().knobs.hold("snapshot_disk")
    assert (await stage.create(operation="s.ask;1;1")).status == 200
    await stage.cloud.hypervisor().knobs.held("snapshot_disk")
    burying = await stage.cloud.meanwhile(
        stage.cloud.ask("DELETE", "/mooring/operations/s.ask", user="compute")
    )
    await stage.cloud.settle()
    assert (await burying).status == 200
    stage.cloud.hypervisor().knobs.release("snapshot_disk")
    assert (await stage.file_in_use(), stage.desk.told) == (stage.base, ["error"])


@pytest.mark.parametrize("accepted", [False, True])
async def test_who_gives_a_reported_snapshot_up_is_not_waited_for(
    stage: Stage, *, accepted: bool
) -> None:
    await stage.begin()
    stage.desk.finishes, stage.desk.progress = False, "95%" if accepted else "90%"
    await stage.create(operation="s.ask;1;1")
    await stage.cloud.compute.sagas.schedule.quiet()
    assert (await stage.file_in_use(), stage.desk.told) == (stage.file, ["creating"])
    burying = await stage.cloud.meanwhile(
        stage.cloud.ask("DELETE", "/mooring/operations/s.ask", user="compute"), turns=1000
    )
    # What is not accepted by now need not be looked at again: nobody turns the clock for it.
    if accepted:
        assert not burying.done()
        stage.desk.statuses[SNAPSHOT] = "error"
        stage.cloud.clock.advance(COMPUTE_SNAPSHOT_POLL_S)
    assert (await burying).status == 200
    told = ["creating"] if accepted else ["creating", "error"]
    assert stage.desk.told == told
    assert await stage.file_in_use() == (stage.file if accepted else stage.base)


async def test_burying_the_operation_stops_a_merge(stage: Stage) -> None:
    await stage.begin("deleting")
    stage.cloud.hypervisor().knobs.hold("merge_disk")
    assert (await stage.delete(operation="s.ask;1;1")).status == 204
    burying = await stage.cloud.meanwhile(
        stage.cloud.ask("DELETE", "/mooring/operations/s.ask", user="compute")
    )
    await stage.cloud.settle()
    assert (await burying).status == 200
    assert stage.desk.statuses == {SNAPSHOT: "error_deleting"}
    stage.cloud.hypervisor().knobs.release("merge_disk")


async def test_a_merge_waits_until_the_snapshot_before_it_has_ended(stage: Stage) -> None:
    await stage.begin()
    stage.cloud.hypervisor().knobs.hold("snapshot_disk")
    await stage.create()
    assert (await stage.delete()).status == 204
    assert (await stage.create()).status == 409
    stage.cloud.hypervisor().knobs.release("snapshot_disk")
    await stage.cloud.settle()
    assert stage.desk.told == ["creating", "deleting"]


async def test_the_same_operation_twice_is_one(stage: Stage) -> None:
    await stage.begin()
    for _ in range(2):
        assert (await stage.create(operation="s.ask;1;1")).status == 200
        await stage.cloud.settle()
    assert stage.desk.told == ["creating"]


async def test_a_call_behind_the_end_of_its_operation_is_410(stage: Stage) -> None:
    await stage.begin()
    await stage.cloud.ask("DELETE", "/mooring/operations/s.ask", user="compute")
    assert (await stage.create(operation="s.ask;1;1")).status == 410
    assert (await stage.delete(operation="s.ask;1;1")).status == 410
    await stage.cloud.settle()
    assert (await stage.file_in_use(), stage.desk.told) == (stage.base, [])


async def test_a_server_that_goes_ends_its_snapshot(stage: Stage) -> None:
    await stage.begin()
    stage.cloud.hypervisor().knobs.hold("snapshot_disk")
    await stage.create()
    answer = await stage.cloud.ask("DELETE", f"/servers/{stage.server_id}")
    assert answer.status == 204
    stage.cloud.hypervisor().knobs.release("snapshot_disk")
    await stage.cloud.settle()
    assert stage.desk.statuses[SNAPSHOT] == "error"
    assert (await stage.cloud.server(stage.server_id))["status"] == "gone"


async def test_a_server_may_go_while_the_volume_service_takes_its_time(stage: Stage) -> None:
    await stage.begin()
    stage.desk.finishes = False
    await stage.create()
    await stage.cloud.meanwhile(stage.cloud.compute.sagas.schedule.quiet())
    assert (await stage.cloud.ask("DELETE", f"/servers/{stage.server_id}")).status == 204
    await stage.cloud.settle()
    assert (await stage.cloud.server(stage.server_id))["status"] == "gone"


async def test_a_lost_host_keeps_the_new_file_for_it_reads_the_same(stage: Stage) -> None:
    await stage.begin()
    stage.cloud.hypervisor().knobs.fail("snapshot_disk", Unavailable("It says nothing."))
    stage.cloud.silent = ("PUT", f"/servers/{stage.server_id}/disks")
    await stage.create()
    listed = await stage.cloud.ask("GET", _HOSTS, user="admin", version="2.53")
    (service,) = [one for one in listed.body["services"] if one["host"] == "host1"]
    path, body = f"/os-services/{service['id']}", {"forced_down": True}
    await stage.cloud.ask("PUT", path, body, user="admin", version="2.53")
    await stage.cloud.settle()
    assert stage.desk.told == ["creating"]
