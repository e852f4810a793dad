"""Each version that a service advertises has duties: routes and fields that clients of it ask for.

The running services are asked by what they advertise as their newest version: whatever a version up
to that brings is there, from that version on and not before. What is not built says so (501).
Whoever advertises more has a line to add here. Source: facts/compute.md 9.3,
facts/block_storage.md 7.2, facts/shared_file_systems.md 1.3, facts/identity_image_placement.md 1.2,
8.3, 8.11 and 9.5.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.answers import Answer
from tests.cloud import SimulatedCloud
from tests.crowd.clients import Crowd

pytestmark = pytest.mark.anyio
NOWHERE = "00000000-0000-4000-8000-000000000000"
ABSENT = {404, 405, 406, 501}


class Duty(Struct, frozen=True):
    """What comes with a version: a route (one field of its answer), and whether it is built.

    `route` is a method and a path, with what stands in braces filled in, and for actions the
    action's name behind it. `is_new` is false for what older versions are answered, too.
    """

    since: tuple[int, int]
    route: str
    field: str = ""
    is_built: bool = True
    is_new: bool = True

    def __str__(self) -> str:
        return f"{self.since[0]}.{self.since[1]} {self.route} {self.field}".strip()


VOLUME = [
    Duty((3, 1), "POST /volumes/{volume}/action os-volume_upload_image", is_new=False),
    Duty((3, 3), "GET /messages"),
    Duty((3, 7), "GET /os-services", "services.0.cluster"),
    Duty((3, 8), "GET /manageable_volumes", is_built=False, is_new=False),
    Duty((3, 9), f"PUT /backups/{NOWHERE}"),
    Duty((3, 11), "GET /group_types", is_built=False, is_new=False),
    Duty((3, 12), "GET /volumes/summary"),
    Duty((3, 13), "GET /groups", is_built=False, is_new=False),
    Duty((3, 13), "GET /volumes/{volume}", "volume.group_id"),
    Duty((3, 24), "POST /workers/cleanup", is_built=False, is_new=False),
    Duty((3, 27), "GET /attachments"),
    Duty((3, 33), "GET /resource_filters", is_built=False, is_new=False),
    Duty((3, 36), "GET /volumes/summary", "volume-summary.metadata"),
    Duty((3, 40), "POST /volumes/{volume}/action revert"),
    Duty((3, 44), f"POST /attachments/{NOWHERE}/action os-complete"),
    Duty((3, 45), "GET /volumes?with_count=true", "count"),
    Duty((3, 48), "GET /volumes/{volume}", "volume.shared_targets"),
    Duty((3, 48), "GET /volumes/{volume}", "volume.service_uuid"),
    Duty((3, 49), "GET /os-services", "services.0.backend_state"),
    Duty((3, 55), "GET /volume-transfers"),
    Duty((3, 61), "GET /volumes/{volume}", "volume.cluster_name"),
    Duty((3, 62), "GET /default-types", is_built=False, is_new=False),
    Duty((3, 63), "GET /volumes/{volume}", "volume.volume_type_id"),
    Duty((3, 65), "GET /volumes/{volume}", "volume.consumes_quota"),
    Duty((3, 68), "POST /volumes/{volume}/action os-reimage"),
    Duty((3, 71), "POST /volumes/{volume}/action os-extend_volume_completion"),
]
COMPUTE = [
    Duty((2, 3), "GET /servers/{server}", "server.OS-EXT-SRV-ATTR:hostname"),
    Duty((2, 9), "GET /servers/{server}", "server.locked"),
    Duty((2, 11), "GET /os-services", "services.0.forced_down"),
    Duty((2, 16), "GET /servers/{server}", "server.host_status"),
    Duty((2, 19), "GET /servers/{server}", "server.description"),
    Duty((2, 23), "GET /servers/{server}/migrations"),
    Duty((2, 26), "GET /servers/{server}/tags"),
    Duty((2, 26), "GET /servers/{server}", "server.tags"),
    Duty((2, 47), "GET /servers/{server}", "server.flavor.original_name"),
    Duty((2, 55), "GET /flavors/{flavor}", "flavor.description"),
    Duty((2, 61), "GET /flavors/{flavor}", "flavor.extra_specs"),
    Duty((2, 63), "GET /servers/{server}", "server.trusted_image_certificates"),
    Duty((2, 71), "GET /servers/{server}", "server.server_groups"),
    Duty((2, 73), "GET /servers/{server}", "server.locked_reason"),
    Duty((2, 81), f"POST /os-aggregates/{NOWHERE}/images"),
    Duty((2, 96), "GET /servers/{server}", "server.pinned_availability_zone"),
    Duty((2, 97), "GET /servers/{server}/shares"),
    Duty((2, 100), "GET /servers/{server}", "server.scheduler_hints"),
]
SHARE = [
    Duty((2, 7), "GET /services"),
    Duty((2, 25), "GET /quota-sets/{project}/detail"),
    Duty((2, 37), "GET /messages"),
    Duty((2, 45), "GET /share-access-rules?share_id=nobody"),
    Duty((2, 55), "GET /share-groups"),
    Duty((2, 56), "GET /share-replicas"),
    Duty((2, 77), "GET /share-transfers"),
    Duty((2, 80), "GET /share-backups"),
    Duty((2, 81), "GET /resource-locks"),
]
PLACEMENT = [
    Duty((1, 1), "GET /resource_providers/{provider}/aggregates"),
    Duty((1, 2), "GET /resource_classes"),
    Duty((1, 6), "GET /traits"),
    Duty((1, 9), "GET /usages?project_id={project}"),
    Duty((1, 10), "GET /allocation_candidates?resources=VCPU:1"),
    Duty(
        (1, 17), "GET /allocation_candidates?resources=VCPU:1&required=COMPUTE_NODE", is_new=False
    ),
    Duty((1, 30), "POST /reshaper"),
    Duty((1, 38), "GET /usages?project_id={project}&consumer_type=all", is_new=False),
]
IMAGE = [
    Duty((2, 0), "GET /images"),
    Duty((2, 0), "GET /schemas/image"),
    Duty((2, 1), "GET /images/{image}/members"),
    Duty((2, 3), "POST /images/{image}/actions/deactivate", is_new=False),
    Duty((2, 5), "GET /images?visibility=community", is_new=False),
    Duty((2, 6), "GET /info/import"),
    Duty((2, 7), "GET /images/{image}", "os_hash_value"),
    Duty((2, 12), "GET /images/{image}/tasks"),
    Duty((2, 14), "GET /info/usage"),
    Duty((2, 17), "GET /images/{image}/locations"),
]
IDENTITY = [
    Duty((3, 0), "GET /projects"),
    Duty((3, 4), "GET /auth/catalog"),
    Duty((3, 6), "GET /roles/{role}/implies"),
    Duty((3, 6), "GET /role_inferences"),
    Duty((3, 7), "GET /projects/{project}/tags"),
    Duty((3, 10), "GET /users/{user}/application_credentials"),
    Duty((3, 11), "GET /registered_limits"),
    Duty((3, 13), "GET /users/{user}/access_rules", is_built=False),
    Duty((3, 14), "GET /system/users/{user}/roles"),
]
SERVICES = {
    "compute": ("/compute/v2.1", COMPUTE),
    "identity": ("/identity/v3", IDENTITY),
    "image": ("/image/v2", IMAGE),
    "placement": ("/placement", PLACEMENT),
    "share": ("/share/v2", SHARE),
    "volume": ("/volume/v3", VOLUME),
}
"""By service: below what its routes are, and its duties."""


@pytest.fixture
async def crowd(tmp_path: Path) -> AsyncIterator[Crowd]:
    async with SimulatedCloud(tmp_path) as cloud:
        made = Crowd(cloud, "")
        await made.furnish()
        volume = await made.ask("POST", "/volume/v3/volumes", {"volume": {"size": 1}})
        await cloud.settle()
        roles = await made.ask("GET", "/identity/v3/roles")
        providers = await made.ask("GET", "/placement/resource_providers")
        made.names |= {
            "volume": volume.key("volume")["id"],
            "role": roles.key("roles")[0]["id"],
            "provider": providers.key("resource_providers")[0]["uuid"],
            "user": made.names["me"],
        }
        yield made


@pytest.mark.parametrize("service", SERVICES)
async def test_what_a_version_brings_is_there_up_to_the_newest_that_is_advertised(
    crowd: Crowd, service: str
) -> None:
    root, duties = SERVICES[service]
    newest = await advertised(crowd, service)
    wrong: list[str] = []
    for duty in duties:
        if duty.since > newest:
            if has(duty, await ask(crowd, root, duty, newest)):
                wrong.append(f"{duty}: it is there, and {newest} is the newest")
            continue
        for version in {duty.since, newest}:
            answer = await ask(crowd, root, duty, version)
            if not fulfils(duty, answer):
                wrong.append(f"{duty}: in {version} {answer.status} {answer.text[:160]}")
        if duty.is_new and duty.is_built and has_microversions(service):
            before = (duty.since[0], duty.since[1] - 1)
            answer = await ask(crowd, root, duty, before)
            if has(duty, answer):
                wrong.append(f"{duty}: in {before} it is there already")
    assert not wrong, "\n".join(wrong)


async def advertised(crowd: Crowd, service: str) -> tuple[int, int]:
    """Return the newest version that a service's own document names."""
    document = (await crowd.cloud.ask("GET", f"/{service}/", user="")).body
    versions: Any = document["versions"]
    found = (
        versions["values"][0]
        if service == "identity"
        else versions[-1 if service == "share" else 0]
    )
    text: str = found.get("max_version") or found.get("version") or found["id"]
    major, minor = text.removeprefix("v").split(".")
    return int(major), int(minor)


def has_microversions(service: str) -> bool:
    return service not in {"identity", "image"}


async def ask(crowd: Crowd, root: str, duty: Duty, version: tuple[int, int]) -> Answer:
    """Ask for a route; what writes is asked so that nothing comes of it."""
    method, path, *action = duty.route.split(" ")
    body: Any = None if method == "GET" else {action[0] if action else "nothing": {"no": "thing"}}
    text = f"{version[0]}.{version[1]}"
    return await crowd.cloud.ask(
        method, root + path.format(**crowd.names), body, user="admin", version=text
    )


def fulfils(duty: Duty, answer: Answer) -> bool:
    if not duty.is_built:
        return answer.status == 501 and "not built" in answer.text
    return has(duty, answer)


def has(duty: Duty, answer: Answer) -> bool:
    """Whether there is such a route, and the field in its answer."""
    is_there = answer.status not in ABSENT or (answer.status == 404 and NOWHERE in answer.text)
    if not duty.field or not is_there or answer.status >= 300:
        return is_there and not duty.field
    found: Any = answer.body
    for name in duty.field.split("."):
        key: Any = int(name) if name.isdecimal() else name
        if isinstance(key, str) and key not in found:
            return False
        found = found[key]
    return True
