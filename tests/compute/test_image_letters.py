"""Images whose ids have capitals, as earlier releases kept them: a server gets that one or none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.compute.cloud import ComputeCloud
from tests.compute.rescuing import guest_of, rescue

pytestmark = pytest.mark.anyio

SMALL = "ab1f7f30-35a4-4f0e-8d51-0b5b6a5d2c44"
CAPITAL = SMALL.upper()


def action(name: str, image_id: str) -> dict[str, Any]:
    return {name: {"imageRef" if name == "rebuild" else "rescue_image_ref": image_id}}


async def test_a_server_is_rescued_and_rebuilt_by_the_very_image(any_cloud: ComputeCloud) -> None:
    cloud = any_cloud
    cloud.shelf.put(SMALL, b"another's" * 4096, name="another's")
    cloud.shelf.put(CAPITAL, b"help" * 16384, name="of before")
    server_id, _ = await cloud.make_attached()
    await rescue(cloud, server_id, {"rescue_image_ref": CAPITAL.replace("-", "")})
    assert (await guest_of(cloud, server_id)).rescue_image_id == CAPITAL
    assert await cloud.act(server_id, "unrescue") == 202
    await cloud.settle()
    assert await cloud.act(server_id, "rebuild", {"imageRef": CAPITAL}) == 202
    await cloud.settle()
    assert (await cloud.server(server_id))["image"]["id"] == CAPITAL


@pytest.mark.parametrize("name", ["rebuild", "rescue"])
@pytest.mark.parametrize("image_id", [CAPITAL, SMALL])
async def test_an_image_of_other_letters_is_not_taken_for_it(
    cloud: ComputeCloud, name: str, image_id: str
) -> None:
    other = SMALL if image_id == CAPITAL else CAPITAL
    cloud.shelf.put(other, b"another's" * 4096, name="another's")
    server_id, _ = await cloud.make_attached()
    before = await cloud.server(server_id)
    answer = await cloud.ask("POST", f"/servers/{server_id}/action", action(name, image_id))
    assert answer.status == 400, answer.text
    assert f"Cannot find image {image_id}" in answer.text
    assert await cloud.server(server_id) == before
