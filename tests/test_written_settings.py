"""What an operator writes into the settings file is what the cloud goes by."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.agent_api.joining import read_token
from mooring.config import Settings, load
from tests.cloud import SimulatedCloud
from tests.compute.cloud import ComputeCloud
from tests.compute.consoles import console_url, token_of
from tests.compute.moving import Moving, begun, server_that_moves
from tests.compute.test_move_queue import HOSTS, ask_all, only, release, statuses
from tests.fleet.test_commands import Site
from tests.volume.backing_up import back_up, backup, make_volume
from tests.volume.cloud import VolumeCloud
from tests.volume.growth import Harbour

pytestmark = pytest.mark.anyio
MORE_THAN_ANY_DISK_MIB = 1 << 40


def written(directory: Path, **settings: Any) -> dict[str, Any]:
    """Return what a settings file says that names these."""
    file = directory / "mooring.toml"
    lines = [f"{key} = {msgspec.json.encode(value).decode()}\n" for key, value in settings.items()]
    file.write_text("".join(lines), "utf-8")
    found = msgspec.structs.asdict(load(file, environment={}))
    usual = msgspec.structs.asdict(Settings())
    return {key: value for key, value in found.items() if value != usual[key]}


@asynccontextmanager
async def about_to_move(
    directory: Path, count: int, **settings: Any
) -> AsyncGenerator[list[Moving]]:
    """So many servers on one host, and two other hosts."""
    kept = written(directory, **settings)
    async with ComputeCloud(directory / "state", hosts=HOSTS, **kept) as cloud:
        await only(cloud, "host1")
        made = [await server_that_moves(cloud, volumes=1) for _ in range(count)]
        await only(cloud, *HOSTS)
        for one in made:
            one.destination = "host2"
        yield made


@pytest.mark.parametrize(("mib", "status"), [(1, 204), (MORE_THAN_ANY_DISK_MIB, 413)])
async def test_image_reserve_mib_stays_free_beside_uploads(
    tmp_path: Path, mib: int, status: int
) -> None:
    kept = written(tmp_path, image_reserve_mib=mib)
    async with SimulatedCloud(tmp_path / "state", **kept) as cloud:
        wanted = {"disk_format": "raw", "container_format": "bare"}
        made = await cloud.ask("POST", "/image/v2/images", wanted)
        path = f"/image/v2/images/{made.body['id']}/file"
        headers = {"content-type": "application/octet-stream"}
        assert (await cloud.ask("PUT", path, b"data", headers=headers)).status == status


@pytest.mark.parametrize(("mib", "status"), [(1, "available"), (MORE_THAN_ANY_DISK_MIB, "error")])
async def test_image_reserve_mib_stays_free_beside_backups(
    tmp_path: Path, mib: int, status: str
) -> None:
    kept = written(tmp_path, image_reserve_mib=mib)
    async with SimulatedCloud(tmp_path / "state", **kept) as cloud:
        made = await back_up(cloud, await make_volume(cloud))
        await cloud.settle()
        assert (await backup(cloud, made.key("backup")["id"]))["status"] == status


async def test_deleted_servers_days_is_how_long_deleted_servers_are_shown(tmp_path: Path) -> None:
    kept = written(tmp_path, deleted_servers_days=3)
    async with ComputeCloud(tmp_path / "state", **kept) as cloud:
        wanted = {"name": "s", "flavorRef": "42", "imageRef": cloud.image_id, "networks": "none"}
        made = await cloud.ask("POST", "/servers", {"server": wanted})
        await cloud.settle()
        await cloud.ask("DELETE", f"/servers/{made.key('server')['id']}")
        await cloud.settle()
        shown: list[int] = []
        for _ in range(2):
            cloud.clock.step(2 * 86400.0)
            await cloud.cloud.prune()
            deleted = await cloud.ask("GET", "/servers?deleted=true&all_tenants=1", user="admin")
            shown.append(len(deleted.key("servers")))
        assert shown == [1, 0]


async def test_console_token_s_is_how_long_the_url_of_a_console_is_good(tmp_path: Path) -> None:
    async with ComputeCloud(tmp_path / "state", **written(tmp_path, console_token_s=30)) as cloud:
        token = token_of(await console_url(cloud, await cloud.make_server()))
        path, found = f"/os-console-auth-tokens/{token}", list[int]()
        for _ in range(2):
            cloud.clock.step(20.0)
            found.append((await cloud.ask("GET", path, user="admin")).status)
        assert found == [200, 404]


async def test_max_concurrent_live_migrations_leave_a_host_at_a_time(tmp_path: Path) -> None:
    async with about_to_move(tmp_path, 3, max_concurrent_live_migrations=2) as three:
        await ask_all(three)
        assert (await statuses(three)).count("running") == 2
        release(three)
        await three[0].cloud.settle()
        assert await statuses(three) == ["completed"] * 3


async def test_live_migration_timeout_s_is_how_long_a_move_may_last(tmp_path: Path) -> None:
    async with about_to_move(tmp_path, 1, live_migration_timeout_s=1) as [moving]:
        await (await begun(moving))
        await moving.stays_whole()
        assert await moving.status() == "error"


async def test_live_migration_timeout_action_is_what_is_done_then(tmp_path: Path) -> None:
    late = {"live_migration_timeout_s": 1, "live_migration_timeout_action": "force_complete"}
    async with about_to_move(tmp_path, 1, **late) as [moving]:
        await (await begun(moving))
        assert (await moving.status(), await moving.host()) == ("completed", moving.destination)


async def test_extend_deadline_s_is_how_long_compute_may_take(tmp_path: Path) -> None:
    kept = written(tmp_path, extend_deadline_s=60)
    async with VolumeCloud(tmp_path / "state", **kept) as cloud:
        harbour = Harbour(cloud)
        volume_id = await harbour.made()
        await harbour.extend(volume_id)
        assert await harbour.state(volume_id) == ("extending", 1)
        await cloud.settle(120.0)
        assert await harbour.state(volume_id) == ("error_extending", 1)


async def test_token_lifetime_s_is_how_long_a_token_is_good(tmp_path: Path) -> None:
    kept = written(tmp_path, token_lifetime_s=100)
    async with SimulatedCloud(tmp_path / "state", **kept) as cloud:
        token = {"x-auth-token": await cloud.token("demo")}
        statuses_then: list[int] = []
        for _ in range(2):
            cloud.clock.advance(60)
            answer = await cloud.ask("GET", "/volume/v3/volumes", headers=token)
            statuses_then.append(answer.status)
        assert statuses_then == [200, 401]


@pytest.mark.kill
def test_hosts_address_is_where_hosts_are_told_to_join(tmp_path: Path) -> None:
    site = Site(tmp_path, reached_at="cloud.example:8472")
    try:
        site.start()
        assert read_token(site.token()).address == "cloud.example:8472"
    finally:
        site.stop()
