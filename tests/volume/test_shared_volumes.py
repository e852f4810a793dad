"""Volumes that several servers may have (multiattach) are raw files, whatever their pool's are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.agent_api.transport import Forward, Request, Response
from tests.volume.movers import FAR, FAST, SLOW, VOLUMES, Movers, Silence
from tests.volume.test_retyping import TYPES, make_type, retype

pytestmark = pytest.mark.anyio
PLAIN, SHARED = "__DEFAULT__", "shared"


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[Movers]:
    async with Movers(tmp_path, database) as opened:
        await make_type(opened, SHARED, multiattach="<is> True")
        yield opened


async def look(cloud: Movers, volume_id: str) -> tuple[str, bool, str, str]:
    """Return a volume's status, whether servers may share it, its pool, and its file's format."""
    shown = await cloud.show(volume_id)
    backend = shown["os-vol-host-attr:host"]
    found = await cloud.pool(backend).find(volume_id)
    assert found is not None
    return shown["status"], shown["multiattach"], backend, found.format


async def test_it_stays_raw_in_every_pool_that_it_comes_to(cloud: Movers) -> None:
    shared, plain = await cloud.make(volume_type=SHARED), await cloud.make()
    assert await look(cloud, shared) == ("available", True, SLOW, "raw")
    assert await look(cloud, plain) == ("available", False, SLOW, "qcow2")
    for backend in (FAST, FAR, SLOW):
        for volume_id in (shared, plain):
            assert (await cloud.migrate(volume_id, backend)).status == 202
            await cloud.settle()
        assert await look(cloud, shared) == ("available", True, backend, "raw")
        assert await look(cloud, plain) == ("available", False, backend, "qcow2")


async def test_a_volume_becomes_one_as_a_raw_copy_and_is_plain_again_at_once(
    cloud: Movers,
) -> None:
    volume_id = await cloud.make()
    answer = await retype(cloud, volume_id, SHARED)
    assert answer.status == 400
    assert "its file is not raw" in answer.text
    assert "Nothing was changed" in answer.text
    assert await look(cloud, volume_id) == ("available", False, SLOW, "qcow2")
    on_demand = {"migration_policy": "on-demand"}
    assert (await retype(cloud, volume_id, SHARED, **on_demand)).status == 202
    await cloud.settle()
    status, shared, backend, disk_format = await look(cloud, volume_id)
    assert (status, shared, disk_format) == ("available", True, "raw")
    assert backend != SLOW
    # A raw file is a plain volume, and the other way round: nothing has to be copied.
    for name in (PLAIN, SHARED):
        assert (await retype(cloud, volume_id, name)).status == 202
        assert await look(cloud, volume_id) == ("available", name == SHARED, backend, "raw")


async def test_a_pool_that_copies_a_plain_type_makes_its_own_kind_of_file(cloud: Movers) -> None:
    await make_type(cloud, "fast", pool_name="fast")
    volume_id = await cloud.make(volume_type=SHARED)
    answer = await retype(cloud, volume_id, "fast", migration_policy="on-demand")
    assert answer.status == 202
    await cloud.settle()
    assert await look(cloud, volume_id) == ("available", False, FAST, "qcow2")


async def test_where_no_other_pool_can_have_it_a_new_volume_of_it_can_be_made(
    cloud: Movers,
) -> None:
    await make_type(cloud, "shared here", multiattach="<is> True", pool_name="slow")
    volume_id = await cloud.make()
    answer = await retype(cloud, volume_id, "shared here", migration_policy="on-demand")
    assert answer.status == 400
    assert "No pool can take" in answer.text
    assert "A new volume of that type that is made of this one" in answer.text
    assert await look(cloud, volume_id) == ("available", False, SLOW, "qcow2")
    new = await cloud.make(volume_type="shared here", source_volid=volume_id)
    assert await look(cloud, new) == ("available", True, SLOW, "raw")


async def test_a_host_that_does_not_answer_is_no_reason_to_guess(cloud: Movers) -> None:
    volume_id = await cloud.make()
    silence = Silence(cloud, ("h1", "GET", f"/volumes/{volume_id}"))
    answer = await retype(cloud, volume_id, SHARED, migration_policy="on-demand")
    assert answer.status == 503
    assert "its host alone can tell. Nothing was changed." in answer.text
    # Where it matters to nobody, nobody asks.
    await make_type(cloud, "plain")
    assert (await retype(cloud, volume_id, "plain")).status == 202
    silence.end()
    assert await look(cloud, volume_id) == ("available", False, SLOW, "qcow2")


async def test_what_comes_to_another_pool_meanwhile_is_no_raw_file_there(cloud: Movers) -> None:
    volume_id = await cloud.make(volume_type=SHARED)
    assert (await retype(cloud, volume_id, PLAIN)).status == 202
    assert await look(cloud, volume_id) == ("available", False, SLOW, "raw")
    deliver, moved = cloud.deliver_to_host, list[str]()

    async def moves_behind(request: Request, forward: Forward) -> Response:
        answer = await deliver(request, forward)
        if request.method == "GET" and f"/volumes/{volume_id}" in request.target and not moved:
            moved.append(volume_id)
            assert (await cloud.migrate(volume_id, FAST)).status == 202
            await cloud.settle()
        return answer

    cloud.deliver_to_host = moves_behind
    answer = await retype(cloud, volume_id, SHARED)
    assert (answer.status, moved) == (400, [volume_id])
    assert await look(cloud, volume_id) == ("available", False, FAST, "qcow2")


async def test_a_type_that_becomes_one_in_the_middle_of_a_copy_is_not_had(cloud: Movers) -> None:
    type_id = await make_type(cloud, "fast", pool_name="fast")
    volume_id = await cloud.make()
    cloud.pool(FAST).knobs.hold("create")
    answer = await retype(cloud, volume_id, "fast", migration_policy="on-demand")
    assert answer.status == 202
    body: dict[str, Any] = {"extra_specs": {"multiattach": "<is> True"}}
    changed = await cloud.ask("POST", f"{TYPES}/{type_id}/extra_specs", body, user="admin")
    assert changed.status == 200
    cloud.pool(FAST).knobs.release("create")
    await cloud.settle()
    assert await look(cloud, volume_id) == ("available", False, SLOW, "qcow2")
    assert (await cloud.ask("GET", f"{VOLUMES}/{volume_id}")).key("volume")["volume_type"] == PLAIN
