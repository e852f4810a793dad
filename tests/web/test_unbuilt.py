"""What is not built says so, on every path that OpenStack has it on."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mooring.web import faces
from mooring.web.face import Face
from tests.cloud import SimulatedCloud
from tests.crowd.routes import routes_of

pytestmark = pytest.mark.anyio
FACES = {
    "compute": faces.COMPUTE,
    "identity": faces.IDENTITY,
    "image": faces.IMAGE,
    "share": faces.SHARE,
    "volume": faces.VOLUME,
}


@pytest.fixture(scope="module")
async def cloud(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path_factory.mktemp("state")) as made:
        yield made


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize("service", FACES)
async def test_a_path_that_is_not_built_says_so(cloud: SimulatedCloud, service: str) -> None:
    root = f"/{service}/{FACES[service].segment}"
    for path, what in FACES[service].unbuilt.families.items():
        for asked in (path.replace("*", "x"), f"{path.replace('*', 'x')}/x/y"):
            answer = await cloud.ask("GET", f"{root}/{asked}", user="demo")
            assert answer.status == (410 if what.startswith("removed") else 501), asked
            assert what in answer.text


@pytest.mark.parametrize("service", FACES)
async def test_what_is_not_built_is_told_to_nobody_without_a_token(
    cloud: SimulatedCloud, service: str
) -> None:
    root = f"/{service}/{FACES[service].segment}"
    for path in FACES[service].unbuilt.families:
        answer = await cloud.ask("GET", f"{root}/{path.replace('*', 'x')}", user="")
        assert answer.status == 401, path


async def test_an_action_that_is_not_built_says_so(cloud: SimulatedCloud) -> None:
    paths = {"/volume/v3/volumes/x/action": faces.VOLUME, "/share/v2/shares/x/action": faces.SHARE}
    for path, face in paths.items():
        assert face.unbuilt.actions
        for name in face.unbuilt.actions:
            answer = await cloud.ask("POST", path, {name: {}}, user="demo")
            assert (answer.status, name in answer.text) == (501, True)


@pytest.mark.parametrize("service", FACES)
def test_what_is_built_is_not_said_to_be_missing(service: str) -> None:
    face, routes = FACES[service], routes_of(service)
    for route in routes:
        parts = [part.strip("{}") for part in route.path.split("/")[1:]]
        face.unbuilt.refuse_path(parts)
        face.unbuilt.refuse_action(route.action)
    assert len(routes) > 10


def test_every_face_is_looked_at() -> None:
    every = [face for face in vars(faces).values() if isinstance(face, Face)]
    assert {face.service for face in every if face.unbuilt.families} == {
        face.service for face in FACES.values()
    }
