from __future__ import annotations

import pytest

from mooring.web import faces, versions
from tests.callers import PROJECT
from tests.crowd.routes import routes_of
from tests.web.harbour import Answer, Visitor

pytestmark = pytest.mark.anyio
HEADER = "openstack-api-version"
LEGACY = "x-openstack-nova-api-version"


async def compute(**headers: str) -> Answer:
    return await Visitor().get("/compute/v2.1/boats", **headers)


async def volume(**headers: str) -> Answer:
    return await Visitor(faces.VOLUME, root="http://cloud/volume").get(
        "/volume/v3/boats", **headers
    )


async def test_without_a_header_the_oldest_version_rules() -> None:
    answer = await compute()
    assert answer.json["version"] == [2, 1]
    assert (answer.header(HEADER), answer.header(LEGACY)) == ("compute 2.1", "2.1")
    assert answer.header("vary") == "OpenStack-API-Version, X-OpenStack-Nova-API-Version"


@pytest.mark.parametrize(
    ("headers", "version"),
    [
        ({"openstack_api_version": "compute 2.7"}, [2, 7]),
        ({"openstack_api_version": "volume 3.9, compute 2.7"}, [2, 7]),
        ({"openstack_api_version": "compute latest"}, [2, 9]),
        ({"x_openstack_nova_api_version": "2.3"}, [2, 3]),
        ({"x_openstack_nova_api_version": "2.3", "openstack_api_version": "compute 2.7"}, [2, 7]),
        ({"openstack_api_version": "volume 3.9"}, [2, 1]),
    ],
)
async def test_the_version_asked_for_rules(headers: dict[str, str], version: list[int]) -> None:
    assert (await compute(**headers)).json["version"] == version


@pytest.mark.parametrize("asked", ["2.10", "3.0", "1.9", "2.0"])
async def test_a_version_outside_the_range_is_406_and_echoed(asked: str) -> None:
    answer = await compute(openstack_api_version=f"compute {asked}")
    assert (answer.status, answer.json["computeFault"]["code"]) == (406, 406)
    assert answer.header(HEADER) == f"compute {asked}"
    assert "2.1" in answer.json["computeFault"]["message"]


@pytest.mark.parametrize(
    "text", ["compute", "compute two", "compute 2.", "compute 2 1", "compute 02.1"]
)
async def test_a_malformed_version_is_400_without_an_echo(text: str) -> None:
    answer = await compute(openstack_api_version=text)
    assert (answer.status, answer.header(HEADER)) == (400, "")


async def test_volume_wants_an_entry_of_its_own() -> None:
    assert (await volume()).json["version"] == [3, 0]
    assert (await volume(openstack_api_version="compute 2.1")).status == 400
    assert (await volume(openstack_api_version="volume latest")).json["version"] == [3, 71]


async def test_placement_names_its_range_in_a_406() -> None:
    placement = Visitor(faces.PLACEMENT, root="http://cloud/placement")
    answer = await placement.get("/placement/boats", openstack_api_version="placement 1.99")
    error = answer.json["errors"][0]
    assert (error["min_version"], error["max_version"]) == ("1.0", "1.39")


@pytest.mark.parametrize(
    ("path", "status", "key"),
    [
        ("/compute", 200, "versions"),
        ("/compute/", 200, "versions"),
        ("/compute/v2.1", 200, "version"),
        ("/compute/v2.1/", 200, "version"),
        (f"/compute/v2.1/{PROJECT}", 200, "version"),
        ("/compute/versions/v2.1", 200, "version"),
    ],
)
async def test_compute_shows_its_versions_without_a_token(path: str, status: int, key: str) -> None:
    answer = await Visitor().get(path, who="")
    assert (answer.status, list(answer.json)) == (status, [key])
    [version] = answer.json["versions"] if key == "versions" else [answer.json["version"]]
    assert (version["version"], version["min_version"]) == ("2.9", "2.1")
    assert version["links"][0]["href"] == "http://cloud/compute/v2.1/"


@pytest.mark.parametrize(("path", "status"), [("", 300), ("/v3", 200), (f"/v3/{PROJECT}/", 200)])
async def test_volume_shows_a_list_of_versions(path: str, status: int) -> None:
    answer = await Visitor(faces.VOLUME, root="http://cloud/volume").get(f"/volume{path}", who="")
    assert (answer.status, answer.json["versions"][0]["version"]) == (status, "3.71")
    assert {"rel": "self", "href": "http://cloud/volume/v3/"} in answer.json["versions"][0]["links"]


async def test_identity_nests_its_list() -> None:
    identity = Visitor(faces.IDENTITY, root="http://cloud/identity")
    root, version = await identity.get("/identity", who=""), await identity.get("/identity/v3/")
    assert root.status == 300
    assert root.json["versions"]["values"] == [version.json["version"]]
    assert root.header("location") == "http://cloud/identity/v3/"


async def test_image_lists_minor_versions_at_its_root_and_nothing_at_v2() -> None:
    image = Visitor(faces.IMAGE, root="http://cloud/image")
    root = await image.get("/image/", who="")
    assert (root.status, root.json["versions"][0]["id"]) == (300, "v2.16")
    assert (await image.get("/image/versions", who="")).status == 200
    assert (await image.get("/image/v2/", who="")).status == 401
    assert (await image.get("/image/v2/")).status == 404


def test_image_tells_of_locations_only_if_it_has_them() -> None:
    has_them = any(route.path.endswith("/locations") for route in routes_of("image"))
    assert (versions.IMAGE_VERSIONS >= 17) == has_them


async def test_placement_says_max_version_and_an_empty_link() -> None:
    placement = Visitor(faces.PLACEMENT, root="http://cloud/placement")
    [version] = (await placement.get("/placement/", who="")).json["versions"]
    assert (version["max_version"], version["links"]) == ("1.39", [{"rel": "self", "href": ""}])
