"""Volumes that are made to become others: the same on every volume driver."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mooring.agent.drivers.base import VolumeDriver
from mooring.agent.drivers.file_volumes import FileVolumes
from mooring.errors import Conflict
from tests.contract.test_volume_driver import HERE, driver, volume

__all__ = ["driver"]
pytestmark = pytest.mark.anyio


async def test_a_volume_under_a_guest_gets_the_id_that_it_was_made_to_become(
    driver: VolumeDriver,
) -> None:
    made = await driver.create(volume(driver, 2), None, "op", becomes="v2")
    assert (made, await driver.find("v2")) == (replace(volume(driver, 2), becomes="v2"), None)
    before = await driver.export("v1", "a1", HERE)
    is_file = isinstance(driver, FileVolumes)
    held = driver.active_path("v1").stat().st_ino if is_file else 0
    for _ in range(2):
        await driver.rename("v1", "v2")
        assert await driver.volumes() == [replace(volume(driver, 2, "v2"), exports=["a1"])]
        assert await driver.leftovers() == []
    after = await driver.export("v2", "a1", HERE)
    # Who has it open goes on, and whoever opens it next finds it where it was.
    assert before["data"] == {**after["data"], "volume_id": "v1"}
    assert not is_file or driver.active_path("v2").stat().st_ino == held
    await driver.unexport("v2", "a1")
    await driver.extend("v2", 3, "op2")
    await driver.delete("v2")
    assert (await driver.volumes(), await driver.leftovers()) == ([], [])


async def test_what_is_to_become_another_volume_waits_until_that_has_left(
    driver: VolumeDriver,
) -> None:
    await driver.create(volume(driver), None, "op")
    with pytest.raises(Conflict):
        await driver.create(volume(driver, 1, "v2"), None, "op2", becomes="v1")
    assert await driver.volumes() == [volume(driver)]
    await driver.delete("v1")
    await driver.create(volume(driver, 1, "v2"), None, "op3", becomes="v1")
    await driver.delete("v2")
    assert (await driver.volumes(), await driver.leftovers()) == ([], [])
