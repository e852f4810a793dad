"""How far an operation is that copies, as `mooring operations` shows it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.clients.transport import Forward, Request, Response
from mooring.volume.volumes import filling
from tests.cloud import SimulatedCloud
from tests.compute.test_server_images import make_base, make_server, picture
from tests.volume.test_uploading import begun, make_volume, show, storage
from tests.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path, database=database) as opened:
        yield opened


async def shown(cloud: SimulatedCloud, service: str, name: str) -> int:
    """Return how far the operation of this name is."""
    listed = await cloud.ask("GET", f"{service}/mooring/operations", user="admin")
    found = {one["name"]: one["progress"] for one in listed.key("operations")}
    return found[name]


COPIES = {
    "an upload": ("capture", "volume.upload_volume"),
    "a clone": ("create", "volume.clone_volume"),
}
"""Where the host copies, and the operation that it does so for."""


async def begin(cloud: SimulatedCloud, case: str, volume_id: str) -> None:
    """Begin a copy of a volume."""
    if case == "an upload":
        await begun(cloud, volume_id)
    else:
        wanted: dict[str, Any] = {"size": 1, "source_volid": volume_id}
        await cloud.do("POST", "/volume/v3/volumes", {"volume": wanted})


@pytest.mark.parametrize("case", sorted(COPIES))
async def test_how_much_a_host_has_copied_is_shown(
    cloud: SimulatedCloud, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    point, name = COPIES[case]
    volume_id, driver = await make_volume(cloud), storage(cloud)

    async def percent(of: str) -> int:
        del of
        return 37

    monkeypatch.setattr(driver, "copied_percent", percent)
    monkeypatch.setattr(filling, "VOLUME_PROGRESS_S", 0.05)
    driver.knobs.hold(point)
    await begin(cloud, case, volume_id)
    await driver.knobs.held(point)

    async def is_told() -> bool:
        return await shown(cloud, "/volume/v3", name) == 37

    await until(is_told, "it says how far the copy is")
    driver.knobs.release(point)
    await cloud.settle()


def seen_behind_an_upload(cloud: SimulatedCloud, service: str, name: str) -> list[int]:
    """Note how far an operation is when the image service has been sent all data, not answered."""
    seen = list[int]()

    async def note(request: Request, forward: Forward) -> Response:
        answer = await forward(request)
        if request.method == "PUT" and request.path.endswith("/file"):
            seen.append(await shown(cloud, service, name))
        return answer

    cloud.deliver = note
    return seen


async def test_how_much_of_an_image_of_a_volume_is_uploaded_is_shown(
    cloud: SimulatedCloud,
) -> None:
    volume_id = await make_volume(cloud)
    seen = seen_behind_an_upload(cloud, "/volume/v3", "volume.upload_volume")
    image_id = await begun(cloud, volume_id)
    await cloud.settle()
    assert seen == [99]
    assert (await show(cloud, image_id)).key("status") == "active"


async def test_how_much_of_an_image_of_a_server_is_uploaded_is_shown(
    cloud: SimulatedCloud,
) -> None:
    server_id = await make_server(cloud, await make_base(cloud))
    seen = seen_behind_an_upload(cloud, "/compute/v2.1", "compute.create_image")
    answer = await picture(cloud, server_id)
    await cloud.settle()
    assert seen == [99]
    assert (await show(cloud, answer.key("image_id"))).key("status") == "active"
