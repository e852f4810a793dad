"""The version documents that clients read before anything else, as each service writes them.

Source: facts/identity_image_placement.md 1.2, facts/compute.md 9.2, facts/block_storage.md 7.1,
facts/shared_file_systems.md 1.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.web.face import Document

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.web.face import Face

IMAGE_VERSIONS = 16
"""The newest minor version of the image API that is advertised.

With 2.17 came locations, which are not built: who is told of it asks for them, and takes their
absence for that of the image (facts/identity_image_placement.md 8.3 and 8.11).
"""


def identity(face: Face, root: str) -> Mapping[str, Document]:
    """`/identity` answers 300 with a nested list, `/identity/v3` answers 200 with one version."""
    version: dict[str, Any] = {
        "id": "v3.14",
        "status": "stable",
        "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": f"{root}/v3/"}],
        "media-types": [_media("identity-v3")],
    }
    return {
        "": Document(300, {"versions": {"values": [version]}}),
        "/v3": Document(200, {"version": version}),
    }


def compute(face: Face, root: str) -> Mapping[str, Document]:
    """`/compute` lists the versions with 200, `/compute/v2.1` shows one."""
    summary: dict[str, Any] = {
        "id": "v2.1",
        "status": "CURRENT",
        "version": text(face.maximum),
        "min_version": text(face.minimum),
        "updated": "2013-07-23T11:33:21Z",
        "links": [{"rel": "self", "href": f"{root}/v2.1/"}],
    }
    described = {"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/"}
    whole: dict[str, Any] = {
        **summary,
        "links": [*summary["links"], described],
        "media-types": [_media("compute+json;version=2.1", whole=True)],
    }
    return {
        "": Document(200, {"versions": [summary]}),
        "/v2.1": Document(200, {"version": whole}),
        "/versions/v2.1": Document(200, {"version": whole}),
    }


def volume(face: Face, root: str) -> Mapping[str, Document]:
    """`/volume` answers 300, `/volume/v3` 200, both with the same list."""
    version: dict[str, Any] = {
        "id": "v3.0",
        "status": "CURRENT",
        "version": text(face.maximum),
        "min_version": text(face.minimum),
        "updated": "2023-08-31T00:00:00Z",
        "links": [
            {"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/"},
            {"rel": "self", "href": f"{root}/v3/"},
        ],
        "media-types": [_media("volume+json;version=3", whole=True)],
    }
    body = {"versions": [version]}
    return {"": Document(300, body), "/v3": Document(200, body)}


def share(face: Face, root: str) -> Mapping[str, Document]:
    """`/share` answers 300, `/share/v2` 200, both with the same list, to whoever asks.

    Manila wants a token for the second one; its clients come without one first. That one is asked
    for in a microversion.
    """
    version: dict[str, Any] = {
        "id": "v2.0",
        "status": "CURRENT",
        "version": text(face.maximum),
        "min_version": text(face.minimum),
        "updated": "2015-08-27T11:33:21Z",
        "links": [
            {"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/"},
            {"rel": "self", "href": f"{root}/v2/"},
        ],
        "media-types": [_media("share+json;version=1", whole=True)],
    }
    body = {"versions": [version]}
    return {"": Document(300, body), "/v2": Document(200, body, has_version=True)}


def image(face: Face, root: str) -> Mapping[str, Document]:
    """`/image` answers 300 and `/image/versions` 200, with every minor version down to 2.0."""
    versions = [
        {
            "id": f"v2.{minor}",
            "status": "CURRENT" if minor == IMAGE_VERSIONS else "SUPPORTED",
            "links": [{"rel": "self", "href": f"{root}/v2/"}],
        }
        for minor in range(IMAGE_VERSIONS, -1, -1)
    ]
    body = {"versions": versions}
    return {"": Document(300, body), "/versions": Document(200, body)}


def placement(face: Face, root: str) -> Mapping[str, Document]:
    """`/placement` answers 200; the newest version is `max_version` here, and href is empty."""
    version = {
        "id": "v1.0",
        "status": "CURRENT",
        "min_version": text(face.minimum),
        "max_version": text(face.maximum),
        "links": [{"rel": "self", "href": ""}],
    }
    return {"": Document(200, {"versions": [version]})}


def text(version: tuple[int, int]) -> str:
    """Return `2.105` for (2, 105)."""
    return f"{version[0]}.{version[1]}"


def _media(name: str, *, whole: bool = False) -> dict[str, str]:
    kind = f"application/vnd.openstack.{name}" + ("" if whole else "+json")
    return {"base": "application/json", "type": kind}
