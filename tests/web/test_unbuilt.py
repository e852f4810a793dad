"""What is not built says so, on every path that OpenStack has it on."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mooring.share.services.api import absent
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
    root, face = f"/{service}/{FACES[service].segment}", FACES[service]
    for path, what in face.unbuilt.families.items():
        below = f"{path.replace('*', 'x')}/x/y"
        for asked in (
            (below,) if path in face.unbuilt.creations else (path.replace("*", "x"), below)
        ):
            answer = await cloud.ask("GET", f"{root}/{asked}", user="demo")
            assert answer.status == (410 if what.startswith("removed") else 501), asked
            assert what in answer.text


CALLS = {
    "/compute/v2.1": """
        DELETE os-floating-ips/x
        PUT,DELETE os-security-groups/x
    """,
    "/image/v2": """
        GET,DELETE cache
        PUT,DELETE cache/x
        GET,DELETE cached_images
        DELETE cached_images/x
        GET,DELETE queued_images
        PUT,DELETE queued_images/x
        GET,POST images/x/locations
    """,
    "/share/v2": """
        POST security-services
        GET,PUT,DELETE security-services/x
        POST share-backups
        GET,PUT,DELETE share-backups/x
        POST share-backups/x/action
        POST share-groups
        GET,PUT,DELETE share-groups/x
        POST share-groups/x/action
        POST share-networks
        GET,PUT,DELETE share-networks/x
        POST share-networks/x/action
        GET,POST share-networks/x/subnets
        GET,DELETE share-networks/x/subnets/y
        POST share-replicas
        GET,DELETE share-replicas/x
        POST share-replicas/x/action
        GET share-replicas/x/export-locations
        GET share-replicas/x/export-locations/y
        POST share-servers
        POST share-servers/manage
        GET,DELETE share-servers/x
        GET share-servers/x/details
        POST share-servers/x/action
        POST share-transfers
        GET,DELETE share-transfers/x
        POST share-transfers/x/accept
        POST shares/manage
        POST snapshots/manage
        POST snapshots/x/unmanage
        GET snapshots/x/access-list
        POST os-share-manage
        POST os-share-unmanage/x/unmanage
    """,
}
"""What OpenStack's services take and these do not, by root: methods, and the path they are for."""


@pytest.mark.parametrize("root", CALLS)
async def test_a_method_that_is_not_built_says_so(cloud: SimulatedCloud, root: str) -> None:
    for line in CALLS[root].split("\n"):
        methods, _, path = line.strip().partition(" ")
        for method in methods.split(",") if methods else ():
            answer = await cloud.ask(method, f"{root}/{path}", {}, user="admin")
            assert answer.status == 501, (method, path)
            assert "not built in this cloud" in answer.text
            assert (await cloud.ask(method, f"{root}/{path}", {}, user="")).status == 401


@pytest.mark.parametrize("path", ["consistency-groups", "consistency-groups/x", "cgsnapshots/x"])
async def test_what_was_removed_from_shares_says_so(cloud: SimulatedCloud, path: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        assert (await cloud.ask(method, f"/share/v2/{path}", {}, user="demo")).status == 410


@pytest.mark.parametrize(
    "asked", ["POST os-networks/add", "DELETE os-networks/x", "POST os-networks/x/action"]
)
async def test_what_compute_lost_of_networks_says_so(cloud: SimulatedCloud, asked: str) -> None:
    method, path = asked.split(" ")
    answer = await cloud.ask(method, f"/compute/v2.1/{path}", {}, user="admin")
    assert (answer.status, "removed from the API" in answer.text) == (410, True)


async def test_lists_of_what_is_not_built_stay_empty_and_take_no_other_method(
    cloud: SimulatedCloud,
) -> None:
    newest = {"X-OpenStack-Manila-API-Version": "2.82"}
    listed = [path for path in faces.SHARE.unbuilt.creations if "/" not in path]
    assert len(listed) == 7
    for path in listed:
        answer = await cloud.ask("GET", f"/share/v2/{path}", user="admin", headers=newest)
        assert answer.status == 200, path
        assert list(answer.body.values()) == [[]]
        assert (await cloud.ask("PUT", f"/share/v2/{path}", {}, user="admin")).status == 405


@pytest.mark.parametrize("service", FACES)
async def test_what_is_not_built_is_told_to_nobody_without_a_token(
    cloud: SimulatedCloud, service: str
) -> None:
    root = f"/{service}/{FACES[service].segment}"
    for path in FACES[service].unbuilt.families:
        answer = await cloud.ask("GET", f"{root}/{path.replace('*', 'x')}", user="")
        assert answer.status == 401, path


async def test_an_action_that_is_not_built_says_so(cloud: SimulatedCloud) -> None:
    paths = {"/volume/v3/volumes": faces.VOLUME, "/share/v2/shares": faces.SHARE}
    for path, face in paths.items():
        assert face.unbuilt.actions
        for action in face.unbuilt.actions:
            resource, _, name = action.rpartition("/")
            root = f"/share/v2/{resource}" if resource else path
            answer = await cloud.ask("POST", f"{root}/x/action", {name: {}}, user="demo")
            assert (answer.status, name in answer.text) == (501, True)


@pytest.mark.parametrize("service", FACES)
def test_what_is_built_is_not_said_to_be_missing(service: str) -> None:
    unbuilt, routes = FACES[service].unbuilt, routes_of(service)
    for route in routes:
        parts = [part.strip("{}") for part in route.path.split("/")[1:]]
        unbuilt.refuse_method(route.method, parts)
        unbuilt.refuse_action(route.action, parts[0])
        if route not in absent.api.routes:
            unbuilt.refuse_path(parts)
    assert len(routes) > 10


def test_every_face_is_looked_at() -> None:
    every = [face for face in vars(faces).values() if isinstance(face, Face)]
    assert {face.service for face in every if face.unbuilt.families} == {
        face.service for face in FACES.values()
    }
