"""User data: what was accepted is what guests get."""

from __future__ import annotations

import base64

import pytest

from mooring.agent import config_drives, iso9660
from tests.compute.cloud import ComputeCloud

pytestmark = pytest.mark.anyio
USER_DATA = b"#!/bin/sh\ntouch /begun\n"


@pytest.mark.parametrize("between", ["\n", " \t", "\u00a0", "\u2003"])
async def test_space_in_user_data_is_none_of_it(cloud: ComputeCloud, between: str) -> None:
    encoded = base64.b64encode(USER_DATA).decode()
    given = between.join((encoded[:8], encoded[8:], ""))
    server_id = await cloud.make_server(config_drive=True, user_data=given)
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    drive = cloud.hypervisor("host1").guest_directory / server_id / config_drives.FILE
    assert iso9660.read(drive.read_bytes(), config_drives.USER_DATA) == USER_DATA
