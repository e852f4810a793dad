"""POST /servers/{id}/action: which actions there are, and what is refused in which order."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.compute.servers.api.server_actions import NOT_BUILT
from tests.compute.api.cloud import ComputeAlone, fault_of

pytestmark = pytest.mark.anyio

NOBODY = "22222222-2222-4222-8222-222222222222"


async def act(
    cloud: ComputeAlone, server_id: str, body: Any, *, version: str = "2.1", user: str = "member"
) -> Any:
    path = f"/servers/{server_id}/action"
    return await cloud.ask("POST", path, body, version=version, user=user)


async def states(cloud: ComputeAlone, server_id: str) -> tuple[str, str | None]:
    server = (await cloud.get(f"/servers/{server_id}"))["server"]
    return server["OS-EXT-STS:vm_state"], server["OS-EXT-STS:task_state"]


@pytest.mark.parametrize(
    ("body", "vm_state", "task_state"),
    [
        ({"os-start": None}, "stopped", "powering-on"),
        ({"os-stop": None}, "active", "powering-off"),
        ({"os-stop": None}, "error", "powering-off"),
        ({"reboot": {"type": "SOFT"}}, "active", "rebooting"),
        ({"reboot": {"type": "soft"}}, "active", "rebooting"),
        ({"reboot": {"type": "Hard"}}, "stopped", "rebooting_hard"),
    ],
)
async def test_an_action_on_a_guest_is_202_and_begins(
    cloud: ComputeAlone, body: Any, vm_state: str, task_state: str
) -> None:
    await cloud.host("host1")
    server_id = await cloud.server(host="host1", vm_state=vm_state)
    answer = await act(cloud, server_id, body)
    assert (answer.status, answer.content) == (202, b"")
    assert await states(cloud, server_id) == (vm_state, task_state)
    again = await act(cloud, server_id, body)
    assert again.status in {202, 409}


@pytest.mark.parametrize(
    ("body", "vm_state", "task_state", "text"),
    [
        ({"os-start": None}, "active", None, "'start'"),
        ({"os-stop": None}, "stopped", None, "'stop'"),
        ({"os-stop": None}, "active", "rebooting", "task_state rebooting"),
        ({"reboot": {"type": "SOFT"}}, "stopped", None, "vm_state stopped"),
        ({"reboot": {"type": "HARD"}}, "building", None, "vm_state building"),
    ],
)
async def test_an_action_in_the_wrong_state_is_409(
    cloud: ComputeAlone, body: Any, vm_state: str, task_state: str | None, text: str
) -> None:
    await cloud.host("host1")
    server_id = await cloud.server(host="host1", vm_state=vm_state, task_state=task_state)
    code, key, message = fault_of(await act(cloud, server_id, body))
    assert (code, key) == (409, "conflictingRequest")
    assert text in message
    assert server_id in message


async def test_the_lock_is_checked_before_the_state(cloud: ComputeAlone) -> None:
    await cloud.host("host1")
    server_id = await cloud.server(host="host1", vm_state="paused")
    assert (await act(cloud, server_id, {"lock": None})).status == 202
    code, _, message = fault_of(await act(cloud, server_id, {"os-stop": None}))
    assert (code, "locked" in message) == (409, True)
    deleted = await cloud.ask("DELETE", f"/servers/{server_id}")
    assert fault_of(deleted)[:2] == (409, "conflictingRequest")
    assert (await act(cloud, server_id, {"unlock": None})).status == 202
    assert "paused" in fault_of(await act(cloud, server_id, {"os-stop": None}))[2]


async def test_an_administrators_lock_is_ended_by_administrators(cloud: ComputeAlone) -> None:
    server_id = await cloud.server()
    assert (await act(cloud, server_id, {"lock": None}, user="admin")).status == 202
    assert fault_of(await act(cloud, server_id, {"unlock": None}))[:2] == (403, "forbidden")
    assert (await act(cloud, server_id, {"unlock": None}, user="admin")).status == 202
    shown = (await cloud.get(f"/servers/{server_id}", version="2.9"))["server"]
    assert shown["locked"] is False


async def locked(cloud: ComputeAlone, server_id: str) -> tuple[bool, str | None]:
    shown = (await cloud.get(f"/servers/{server_id}", version="2.73"))["server"]
    return shown["locked"], shown["locked_reason"]


async def lock(cloud: ComputeAlone, server_id: str, reason: str, user: str = "member") -> None:
    body = {"lock": {"locked_reason": reason}}
    assert (await act(cloud, server_id, body, version="2.73", user=user)).status == 202


async def test_an_owner_who_locks_once_more_does_not_end_an_administrators_lock(
    any_cloud: ComputeAlone,
) -> None:
    server_id = await any_cloud.server()
    await lock(any_cloud, server_id, "under examination", user="admin")
    await lock(any_cloud, server_id, "mine")
    assert (await act(any_cloud, server_id, {"lock": None})).status == 202
    assert await locked(any_cloud, server_id) == (True, "under examination")
    assert fault_of(await act(any_cloud, server_id, {"unlock": None}))[:2] == (403, "forbidden")
    assert await locked(any_cloud, server_id) == (True, "under examination")


async def test_an_administrators_lock_takes_the_place_of_an_owners(
    any_cloud: ComputeAlone,
) -> None:
    """Whose reason the owner may change until then, and not any more."""
    server_id = await any_cloud.server()
    for reason in ("mine", "mine still"):
        await lock(any_cloud, server_id, reason)
        assert await locked(any_cloud, server_id) == (True, reason)
    await lock(any_cloud, server_id, "under examination", user="admin")
    await lock(any_cloud, server_id, "mine")
    assert await locked(any_cloud, server_id) == (True, "under examination")
    assert fault_of(await act(any_cloud, server_id, {"unlock": None}))[:2] == (403, "forbidden")
    assert (await act(any_cloud, server_id, {"unlock": None}, user="admin")).status == 202
    assert await locked(any_cloud, server_id) == (False, None)


async def test_a_lock_that_an_administrator_gives_meanwhile_is_not_ended(
    cloud: ComputeAlone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read before the write says nothing about who has locked it by then."""
    server_id = await cloud.server()
    write, asked = cloud.compute.store.write, [{"lock": None}]

    async def locks_first(fn: Any) -> Any:
        if asked:
            assert (await act(cloud, server_id, asked.pop(), user="admin")).status == 202
        return await write(fn)

    monkeypatch.setattr(cloud.compute.store, "write", locks_first)
    assert fault_of(await act(cloud, server_id, {"unlock": None}))[:2] == (403, "forbidden")
    assert (await locked(cloud, server_id))[0] is True


async def test_a_lock_has_a_reason_from_273_on(cloud: ComputeAlone) -> None:
    server_id = await cloud.server()
    reasoned = {"lock": {"locked_reason": "being moved"}}
    assert (await act(cloud, server_id, reasoned, version="2.73")).status == 202
    shown = (await cloud.get(f"/servers/{server_id}", version="2.73"))["server"]
    assert (shown["locked"], shown["locked_reason"]) == (True, "being moved")
    for bad in ({"reason": "x"}, {"locked_reason": "x" * 256}):
        answer = await act(cloud, server_id, {"lock": bad}, version="2.73")
        assert fault_of(answer)[:2] == (400, "badRequest")


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"dance": None},
        {"os-start": None, "os-stop": None},
        {"reboot": None},
        {"reboot": {}},
        {"reboot": {"type": "WARM"}},
        {"reboot": {"type": "SOFT", "more": 1}},
        {"os-getConsoleOutput": {"length": "x"}},
        {"os-getConsoleOutput": {"length": -2}},
        {"os-getConsoleOutput": {"lines": 1}},
    ],
)
async def test_a_bad_action_is_400(cloud: ComputeAlone, body: Any) -> None:
    server_id = await cloud.server()
    assert fault_of(await act(cloud, server_id, body))[:2] == (400, "badRequest")


@pytest.mark.parametrize(
    "body",
    [
        {"os-start": None},
        {"os-stop": None},
        {"reboot": {"type": "SOFT"}},
        {"lock": None},
        {"unlock": None},
        {"forceDelete": None},
        {"os-getConsoleOutput": {}},
        {"pause": None},
    ],
)
async def test_an_action_on_nobody_is_404(cloud: ComputeAlone, body: Any) -> None:
    assert fault_of(await act(cloud, NOBODY, body))[:2] == (404, "itemNotFound")


@pytest.mark.parametrize(("name", "rule", "since", "until"), NOT_BUILT)
async def test_what_is_not_built_says_so(
    cloud: ComputeAlone, name: str, rule: str, since: Any, until: Any
) -> None:
    server_id = await cloud.server()
    version = "2." + str((until or since or (2, 1))[1])
    answer = await act(cloud, server_id, {name: None}, version=version, user="admin")
    code, key, message = fault_of(answer)
    assert (code, key) == (501, "notImplemented")
    assert f"{name} is not built" in message
    assert rule
    for outside in (since and (since[1] - 1), until and (until[1] + 1)):
        if outside:
            gone = await act(cloud, server_id, {name: None}, version=f"2.{outside}", user="admin")
            assert gone.status in {400, 404}


async def test_nothing_that_was_not_kept_is_restored(cloud: ComputeAlone) -> None:
    server_id = await cloud.server()
    answer = await act(cloud, server_id, {"restore": None}, user="admin")
    assert fault_of(answer)[:2] == (409, "conflictingRequest")
    assert (await act(cloud, NOBODY, {"restore": None}, user="admin")).status == 404


async def test_policy_is_asked_before_anything_is_told(cloud: ComputeAlone) -> None:
    server_id = await cloud.server()
    bodies: list[Any] = [{"evacuate": {}}, {"os-resetState": {"state": "active"}}]
    for body in bodies:
        assert fault_of(await act(cloud, server_id, body))[:2] == (403, "forbidden")
        assert fault_of(await act(cloud, NOBODY, body))[:2] == (403, "forbidden")
    assert fault_of(await act(cloud, server_id, {"os-stop": None}, user="reader"))[0] == 403


@pytest.mark.parametrize(
    ("name", "version", "code"),
    [
        ("resetNetwork", "2.1", 410),
        ("os-getRDPConsole", "2.1", 400),
        ("os-getRDPConsole", "2.6", 404),
    ],
)
async def test_what_was_removed_says_so(
    cloud: ComputeAlone, name: str, version: str, code: int
) -> None:
    server_id = await cloud.server()
    body = {name: {"type": "rdp-html5"}}
    assert (await act(cloud, server_id, body, version=version, user="admin")).status == code


async def test_a_server_is_deleted_with_204_and_forced_with_202(cloud: ComputeAlone) -> None:
    first, second = await cloud.server(), await cloud.server()
    answer = await cloud.ask("DELETE", f"/servers/{first}")
    assert (answer.status, answer.content) == (204, b"")
    assert (await cloud.ask("DELETE", f"/servers/{first}")).status == 204
    assert (await act(cloud, second, {"forceDelete": None})).status == 202
    for server_id in (first, second):
        assert (await states(cloud, server_id))[1] == "deleting"


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_nobody_is_404_whatever_is_asked(cloud: ComputeAlone, method: str) -> None:
    body = {"server": {"name": "x"}} if method == "PUT" else None
    answer = await cloud.ask(method, f"/servers/{NOBODY}", body)
    assert fault_of(answer)[:2] == (404, "itemNotFound")


async def test_a_console_needs_a_host(cloud: ComputeAlone) -> None:
    server_id = await cloud.server(vm_state="building", launched_at=None)
    body: dict[str, Any] = {"os-getConsoleOutput": {"length": "10"}}
    assert fault_of(await act(cloud, server_id, body))[:2] == (409, "conflictingRequest")


async def test_an_unsupported_version_is_406(cloud: ComputeAlone) -> None:
    answer = await cloud.ask("GET", "/servers", version="2.107")
    assert fault_of(answer)[:2] == (406, "computeFault")
    assert answer.headers["openstack-api-version"] == "compute 2.107"


@pytest.mark.parametrize("version", ["2", "x.y", "2.01"])
async def test_a_malformed_version_is_400(cloud: ComputeAlone, version: str) -> None:
    assert (await cloud.ask("GET", "/servers", version=version)).status == 400
