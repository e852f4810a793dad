"""What a project may have of images where identity keeps limits of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring import limits
from mooring.clients.transport import Forward, Request, Response
from mooring.neighbour import NoAnswer
from mooring.services import IDENTITY, IMAGE
from tests.answers import Answer
from tests.cloud import SimulatedCloud
from tests.image.cloud import UploadProbe

pytestmark = pytest.mark.anyio
_IDENTITY = "/identity/v3"
_IMAGE = {"name": "i", "disk_format": "raw", "container_format": "bare"}
COUNT, SIZE, UPLOADING = "image_count_total", "image_size_total", "image_count_uploading"
MIB = 1 << 20


class LimitedCloud(SimulatedCloud):
    """Identity and images; a setting allows three images, 3 MiB and three uploads."""

    root = "/image/v2"

    def __init__(self, directory: Path, **how: Any) -> None:
        three: dict[str, Any] = {COUNT: 3, SIZE: 3, UPLOADING: 3}
        self.uploads = UploadProbe()
        how = {"probe": self.uploads, **three, **how}
        super().__init__(directory, services=(IDENTITY, IMAGE), hosts=(), **how)

    async def admin(self, method: str, path: str, body: Any = None) -> Any:
        answer = await self.ask(method, _IDENTITY + path, body, user="admin")
        assert answer.status < 300, answer
        return answer.body

    async def register(self, name: str, amount: int, region: str | None = None) -> str:
        """Register a limit of the image service's; return its id."""
        named = await self._named(name, region)
        body = {"registered_limits": [{**named, "default_limit": amount}]}
        [made] = (await self.admin("POST", "/registered_limits", body))["registered_limits"]
        return made["id"]

    async def limit(
        self, name: str, amount: int, region: str | None = None, project: str = "demo"
    ) -> str:
        """Make a project's limit; return its id."""
        [row] = (await self.admin("GET", f"/projects?name={project}"))["projects"]
        named = {**await self._named(name, region), "project_id": row["id"]}
        body = {"limits": [{**named, "resource_limit": amount}]}
        [made] = (await self.admin("POST", "/limits", body))["limits"]
        return made["id"]

    async def _named(self, name: str, region: str | None) -> dict[str, Any]:
        [service] = (await self.admin("GET", "/services?type=image"))["services"]
        return {"service_id": service["id"], "resource_name": name, "region_id": region}

    async def make(self, user: str = "demo") -> Answer:
        return await self.ask("POST", "/images", _IMAGE, user=user)

    async def made(self, user: str = "demo") -> str:
        answer = await self.make(user)
        assert answer.status == 201, answer
        return answer.body["id"]

    async def upload(self, image_id: str, content: bytes | AsyncIterator[bytes]) -> int:
        headers = {"content-type": "application/octet-stream"}
        return (await self.ask("PUT", f"/images/{image_id}/file", content, headers=headers)).status

    async def status(self, image_id: str) -> str:
        return (await self.ask("GET", f"/images/{image_id}", user="admin")).body["status"]

    async def allowed(self, user: str = "demo") -> dict[str, int]:
        """Return the limits that a project is told of."""
        answer = await self.ask("GET", "/info/usage", user=user)
        assert answer.status == 200, answer
        return {name: one["limit"] for name, one in answer.body["usage"].items()}


@pytest.fixture
async def any_cloud(database: str, tmp_path: Path) -> AsyncIterator[LimitedCloud]:
    async with LimitedCloud(tmp_path, database=database) as opened:
        yield opened


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[LimitedCloud]:
    async with LimitedCloud(tmp_path) as opened:
        yield opened


async def test_a_limit_goes_before_what_is_registered_and_that_before_the_setting(
    any_cloud: LimitedCloud,
) -> None:
    usual = {COUNT: 3, SIZE: 3, UPLOADING: 3, "image_stage_total": 0}
    assert await any_cloud.allowed() == usual
    registered = await any_cloud.register(COUNT, 2)
    assert await any_cloud.allowed() == await any_cloud.allowed("admin") == {**usual, COUNT: 2}
    limit = await any_cloud.limit(COUNT, 1)
    assert await any_cloud.allowed() == {**usual, COUNT: 1}
    assert await any_cloud.allowed("admin") == {**usual, COUNT: 2}
    image_id = await any_cloud.made()
    refused = await any_cloud.make()
    assert (refused.status, COUNT in refused.text) == (413, True)
    await any_cloud.admin("DELETE", f"/limits/{limit}")
    await any_cloud.made()
    assert (await any_cloud.make()).status == 413
    await any_cloud.admin("DELETE", f"/registered_limits/{registered}")
    await any_cloud.made()
    assert (await any_cloud.make()).status == 413
    assert (await any_cloud.ask("DELETE", f"/images/{image_id}")).status == 204
    await any_cloud.made()


async def test_a_projects_images_have_as_many_mib_as_its_limit_says(
    any_cloud: LimitedCloud,
) -> None:
    await any_cloud.register(SIZE, 2)
    await any_cloud.limit(SIZE, 1)
    image_id = await any_cloud.made()
    assert await any_cloud.upload(image_id, bytes(MIB + 1)) == 413
    assert await any_cloud.status(image_id) == "queued"
    assert await any_cloud.upload(image_id, bytes(MIB)) == 204
    assert (await any_cloud.allowed())[SIZE] == 1


async def test_two_uploads_at_once_do_not_take_more_than_the_limit(
    any_cloud: LimitedCloud,
) -> None:
    await any_cloud.register(SIZE, 1)
    images = [await any_cloud.made() for _ in range(2)]
    waiting: list[int] = []
    both = asyncio.Event()

    async def halves() -> AsyncIterator[bytes]:
        yield bytes(MIB // 3)
        waiting.append(1)
        if len(waiting) == 2:
            both.set()
        await both.wait()
        yield bytes(MIB // 3)

    answers = await asyncio.gather(*(any_cloud.upload(image, halves()) for image in images))
    assert sorted(answers) == [204, 413]
    statuses = [await any_cloud.status(image) for image in images]
    assert sorted(statuses) == ["active", "queued"]


async def test_a_project_has_as_many_uploads_at_a_time_as_its_limit_says(
    any_cloud: LimitedCloud,
) -> None:
    await any_cloud.register(UPLOADING, 1)
    first, second = await any_cloud.made(), await any_cloud.made()
    go_on = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b"12"
        await go_on.wait()

    uploading = asyncio.create_task(any_cloud.upload(first, slow()))
    # What is sent may be read before it is received.
    await any_cloud.uploads.begun.wait()
    assert await any_cloud.upload(second, b"x") == 413
    assert await any_cloud.status(second) == "queued"
    go_on.set()
    assert await uploading == 204
    assert await any_cloud.upload(second, b"x") == 204


async def test_minus_one_is_any_and_nothing_is_nothing(cloud: LimitedCloud) -> None:
    for name in (COUNT, SIZE):
        await cloud.register(name, 0)
    assert (await cloud.make()).status == 413
    limit = await cloud.limit(COUNT, -1)
    images = [await cloud.made() for _ in range(4)]
    assert await cloud.upload(images[0], b"x") == 413
    size = await cloud.limit(SIZE, -1)
    assert await cloud.upload(images[0], bytes(4 * MIB)) == 204
    assert await cloud.allowed() == {COUNT: -1, SIZE: -1, UPLOADING: 3, "image_stage_total": 0}
    for path in (f"/limits/{limit}", f"/limits/{size}"):
        await cloud.admin("PATCH", path, {"limit": {"resource_limit": 2}})
    assert (await cloud.make()).status == 413
    assert await cloud.upload(images[1], b"x") == 413


async def test_what_is_registered_for_the_region_holds_there(cloud: LimitedCloud) -> None:
    await cloud.admin("POST", "/regions", {"region": {"id": "elsewhere"}})
    await cloud.register(COUNT, 7, "elsewhere")
    await cloud.limit(COUNT, 8, "elsewhere")
    assert (await cloud.allowed())[COUNT] == 3
    await cloud.register(COUNT, 5)
    await cloud.limit(COUNT, 6)
    assert (await cloud.allowed())[COUNT] == 6
    here = await cloud.register(COUNT, 1, "RegionOne")
    assert (await cloud.allowed())[COUNT] == 1
    limit = await cloud.limit(COUNT, 2, "RegionOne")
    assert (await cloud.allowed())[COUNT] == 2
    await cloud.admin("DELETE", f"/limits/{limit}")
    await cloud.admin("DELETE", f"/registered_limits/{here}")
    assert (await cloud.allowed())[COUNT] == 6


async def test_limits_of_other_services_and_domains_do_not_count(cloud: LimitedCloud) -> None:
    [compute] = (await cloud.admin("GET", "/services?type=compute"))["services"]
    one = {"service_id": compute["id"], "resource_name": COUNT, "default_limit": 1}
    await cloud.admin("POST", "/registered_limits", {"registered_limits": [one]})
    await cloud.register(COUNT, 2)
    [image] = (await cloud.admin("GET", "/services?type=image"))["services"]
    own = {"service_id": image["id"], "resource_name": COUNT, "resource_limit": 1}
    await cloud.admin("POST", "/limits", {"limits": [{**own, "domain_id": "default"}]})
    assert (await cloud.allowed())[COUNT] == 2


async def test_limits_on_several_pages_are_all_read(
    cloud: LimitedCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in enumerate((COUNT, SIZE, UPLOADING), 1):
        await cloud.register(name, 9)
        await cloud.limit(name, number)
    monkeypatch.setattr(limits, "IDENTITY_PAGE_ROWS", 1)
    assert await cloud.allowed() == {COUNT: 1, SIZE: 2, UPLOADING: 3, "image_stage_total": 0}


@pytest.mark.parametrize(
    "answer",
    [None, Response(401), Response(403), Response(404), Response(500), Response(200, b"{}")],
    ids=lambda answer: f"{answer.status}" if answer else "silence",
)
async def test_without_an_answer_of_identity_nothing_is_made_or_uploaded(
    any_cloud: LimitedCloud, answer: Response | None
) -> None:
    image_id = await any_cloud.made()

    async def deliver(request: Request, forward: Forward) -> Response:
        if "_limits" not in request.path:
            return await forward(request)
        if answer is None:
            raise NoAnswer("identity is away")
        return answer

    kept, any_cloud.deliver = any_cloud.deliver, deliver
    assert (await any_cloud.make()).status == 503
    assert await any_cloud.upload(image_id, b"x") == 503
    assert (await any_cloud.ask("GET", "/info/usage")).status == 503
    assert await any_cloud.status(image_id) == "queued"
    assert len((await any_cloud.ask("GET", "/images")).body["images"]) == 1
    any_cloud.deliver = kept
    assert await any_cloud.upload(image_id, b"x") == 204


async def test_an_image_that_is_given_away_meanwhile_is_not_uploaded_to(
    any_cloud: LimitedCloud,
) -> None:
    """Else its new owner would have what the former one may."""
    image_id = await any_cloud.made()
    [row] = (await any_cloud.admin("GET", "/projects?name=admin"))["projects"]
    given: list[int] = []

    async def deliver(request: Request, forward: Forward) -> Response:
        if "/registered_limits" in request.path and not given:
            media = {"content-type": "application/openstack-images-v2.1-json-patch"}
            change = [{"op": "replace", "path": "/owner", "value": row["id"]}]
            path = f"/images/{image_id}"
            given.append(0)
            answer = await any_cloud.ask("PATCH", path, change, user="admin", headers=media)
            given.append(answer.status)
        return await forward(request)

    any_cloud.deliver = deliver
    headers = {"content-type": "application/octet-stream"}
    path = f"/images/{image_id}/file"
    answer = await any_cloud.ask("PUT", path, b"x", user="admin", headers=headers)
    assert (answer.status, given) == (409, [0, 200])
    assert await any_cloud.status(image_id) == "queued"
    again = await any_cloud.ask("PUT", path, b"x", user="admin", headers=headers)
    assert again.status == 204
