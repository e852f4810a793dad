"""The image service's writing routes."""

from __future__ import annotations

from tests.crowd.case import Ask, Case

_NEW = {"name": "{case}#", "disk_format": "raw", "container_format": "bare"}
IMAGES = Ask("POST", "/images", _NEW, "image#", "id")
ONE = Ask("POST", "/images", {**_NEW, "name": "{case}", "visibility": "shared"}, "one", "id")
FILLED = Ask("PUT", "/images/{one}/file", b"content")
_SHARE = Ask("POST", "/images/{one}/members", {"member": "member#"})

CASES = [
    Case(route="POST /images", body=_NEW, look="/images?limit=100", kept='"{case}#"'),
    Case(
        route="PATCH /images/{image_id}",
        media="application/openstack-images-v2.1-json-patch",
        before=(ONE,),
        path="/images/{one}",
        body=[{"op": "add", "path": "/word#", "value": "kept"}],
        look="/images/{one}",
        kept='"word#"',
    ),
    Case(
        route="DELETE /images/{image_id}",
        before=(IMAGES,),
        path="/images/{image#}",
        look="/images?limit=100",
        gone="{image#}",
    ),
    Case(
        route="PUT /images/{image_id}/file", before=(ONE,), path=FILLED.path, body=b"x", alone=True
    ),
    Case(
        route="POST /images/{image_id}/actions/deactivate",
        before=(ONE, FILLED),
        path="/images/{one}/actions/deactivate",
        look="/images/{one}",
        kept='"deactivated"',
    ),
    Case(
        route="POST /images/{image_id}/actions/reactivate",
        before=(ONE, FILLED, Ask("POST", "/images/{one}/actions/deactivate")),
        path="/images/{one}/actions/reactivate",
        look="/images/{one}",
        kept='"active"',
    ),
    Case(
        route="PUT /images/{image_id}/tags/{tag}",
        before=(ONE,),
        path="/images/{one}/tags/tag#",
        look="/images/{one}",
        kept='"tag#"',
    ),
    Case(
        route="DELETE /images/{image_id}/tags/{tag}",
        before=(ONE, Ask("PUT", "/images/{one}/tags/tag#")),
        path="/images/{one}/tags/tag#",
        look="/images/{one}",
        gone='"tag#"',
    ),
    Case(
        route="POST /images/{image_id}/members",
        before=(ONE,),
        path="/images/{one}/members",
        body={"member": "member#"},
        look="/images/{one}/members",
        kept='"member#"',
    ),
    Case(
        route="PUT /images/{image_id}/members/{member_id}",
        before=(ONE, _SHARE),
        path="/images/{one}/members/member#",
        body={"status": "accepted"},
        look="/images/{one}/members",
    ),
    Case(
        route="DELETE /images/{image_id}/members/{member_id}",
        before=(ONE, _SHARE),
        path="/images/{one}/members/member#",
        look="/images/{one}/members",
        gone='"member#"',
    ),
]
