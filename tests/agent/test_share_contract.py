"""The contract of share drivers: one for all, simulated and real."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.agent.settings import SharePoolSettings
from mooring.agent.share_drivers.base import check_rule
from mooring.agent_api.shares import IN_USE_SPACE, ShareSnapshotName
from mooring.errors import Conflict, Invalid, NoCapacity, NotFound
from mooring.fence.journal import Journal
from tests.agent.ceph_cluster import CephCluster
from tests.agent.cephfs_shares import real_cephfs, recorded_cephfs
from tests.agent.nfs_server import why_no_nfs_server
from tests.agent.nfs_shares import real_nfs, recorded_nfs
from tests.agent.share_pools import KINDS, SharesAtWork, gib, share_pool

pytestmark = pytest.mark.anyio
SOURCE = ShareSnapshotName("s1", "n1")


@pytest.fixture(
    params=[
        *KINDS,
        "nfs recorded",
        "cephfs recorded",
        pytest.param("nfs real", marks=pytest.mark.hosts),
        pytest.param("cephfs real", marks=pytest.mark.hosts),
    ]
)
async def pool(
    request: pytest.FixtureRequest, tmp_path: Path, journal: Journal
) -> AsyncGenerator[SharesAtWork]:
    kind: str = request.param
    test = request.function.__name__
    if kind in KINDS:
        opening = share_pool(kind, tmp_path, journal)
    elif kind == "nfs recorded":
        opening = recorded_nfs(SharePoolSettings(), tmp_path, test)
    elif kind == "cephfs recorded":
        opening = recorded_cephfs(SharePoolSettings(), tmp_path, test)
    else:
        record_as = test if request.config.getoption("--golden") else ""
        opening = _open_real(request, kind, tmp_path, journal, record_as)
    async with opening as opened:
        yield opened


def _open_real(
    request: pytest.FixtureRequest, kind: str, directory: Path, journal: Journal, record_as: str
) -> AbstractAsyncContextManager[SharesAtWork]:
    """Return a pool on a server of this machine, or skip with what keeps it from having one."""
    if kind == "cephfs real":
        cluster: CephCluster = request.getfixturevalue("ceph_cluster")
        return real_cephfs(SharePoolSettings(), directory, journal, cluster, record_as)
    if reason := why_no_nfs_server():
        pytest.skip(reason)
    return real_nfs(SharePoolSettings(), directory, journal, record_as)


async def test_a_share_is_made_once_and_empty(pool: SharesAtWork) -> None:
    driver = pool.driver
    assert await driver.find("s1") is None
    exports = await driver.create("s1", 1, None, "op")
    assert [one.preferred for one in exports] == [True]
    assert await driver.create("s1", 1, None, "again") == exports
    found = await driver.find("s1")
    assert found is not None
    assert (found.size_gb, found.exports, found.rules, found.snapshots) == (1, exports, [], [])
    assert await pool.used("s1") < gib(0.01)
    assert [share.share_id for share in await driver.shares()] == ["s1"]
    with pytest.raises(Conflict, match="there already with 1 GiB"):
        await driver.create("s1", 2, None, "larger")
    assert await driver.leftovers() == []


async def test_an_export_has_one_server_part_and_one_path(pool: SharesAtWork) -> None:
    [export] = await pool.driver.create("s1", 1, None, "op")
    servers, _, path = export.path.rpartition(":")
    assert servers
    assert path.startswith("/")
    assert "s1" in path


async def test_nobody_gets_in_before_a_rule_and_after_it(pool: SharesAtWork) -> None:
    driver = pool.driver
    await driver.create("s1", 1, None, "op")
    assert await pool.level("s1") == ""
    key = await driver.grant("s1", pool.grant())
    assert await pool.level("s1", key=key) == "rw"
    assert await pool.level("s1", number=2) == ""
    await driver.revoke("s1", "r1")
    assert await pool.level("s1", key=key) == ""
    await driver.revoke("s1", "r1")
    found = await driver.find("s1")
    assert found is not None
    assert found.rules == []


async def test_one_call_grants_repeats_and_changes_a_rule(pool: SharesAtWork) -> None:
    driver = pool.driver
    await driver.create("s1", 1, None, "op")
    first = await driver.grant("s1", pool.grant())
    assert await driver.grant("s1", pool.grant()) == first
    assert (first is not None) == pool.is_cephfs
    key = await driver.grant("s1", pool.grant(level="ro"))
    assert await pool.level("s1", key=key) == "ro"
    found = await driver.find("s1")
    assert found is not None
    assert [(rule.rule_id, rule.to, rule.level) for rule in found.rules] == [
        ("r1", pool.client(), "ro")
    ]


async def test_revoking_one_rule_spares_another(pool: SharesAtWork) -> None:
    driver = pool.driver
    await driver.create("s1", 1, None, "op")
    await driver.grant("s1", pool.grant())
    other = await driver.grant("s1", pool.grant("r2", number=2, level="ro"))
    await driver.revoke("s1", "r1")
    assert await pool.level("s1", number=2, key=other) == "ro"
    assert await pool.level("s1") == ""


async def test_a_client_has_one_rule_of_a_share(pool: SharesAtWork) -> None:
    driver = pool.driver
    await driver.create("s1", 1, None, "op")
    key = await driver.grant("s1", pool.grant())
    with pytest.raises(Conflict, match="Rule r1 is for"):
        await driver.grant("s1", pool.grant("r2", level="ro"))
    assert await pool.level("s1", key=key) == "rw"


async def test_a_cephx_id_is_one_projects_and_keeps_its_key(pool: SharesAtWork) -> None:
    if not pool.is_cephfs:
        return
    driver = pool.driver
    for share_id in ("s1", "s2", "s3"):
        await driver.create(share_id, 1, None, "op")
    key = await driver.grant("s1", pool.grant())
    assert await driver.grant("s2", pool.grant("r2")) == key
    with pytest.raises(Conflict, match="in use by another project"):
        await driver.grant("s3", replace(pool.grant("r3"), project_id="p2"))
    third = await driver.find("s3")
    assert third is not None
    assert third.rules == []
    await driver.revoke("s1", "r1")
    assert await pool.level("s1", key=key) == ""
    assert await pool.level("s2", key=key) == "rw"
    await driver.revoke("s2", "r2")
    assert await driver.grant("s3", replace(pool.grant("r3"), project_id="p2")) != key


async def test_a_cephx_id_is_anybodys_once_its_last_share_is_deleted(pool: SharesAtWork) -> None:
    if not pool.is_cephfs:
        return
    driver = pool.driver
    await driver.create("s1", 1, None, "op")
    key = await driver.grant("s1", pool.grant())
    await driver.delete("s1")
    await driver.create("s2", 1, None, "op")
    other = await driver.grant("s2", replace(pool.grant("r2"), project_id="p2"))
    assert other != key
    assert await pool.level("s2", key=key) == ""
    assert await pool.level("s2", key=other) == "rw"


async def test_a_share_that_is_not_there_is_not_found(pool: SharesAtWork) -> None:
    driver = pool.driver
    with pytest.raises(NotFound):
        await driver.grant("s1", pool.grant())
    with pytest.raises(NotFound):
        await driver.resize("s1", 2, "op")
    await driver.revoke("s1", "r1")
    await driver.delete("s1")
    await driver.delete_snapshot("s1", "n1")
    assert await driver.find("s1") is None
    assert await driver.leftovers() == []


async def test_a_share_goes_with_its_rules_and_its_content(pool: SharesAtWork) -> None:
    driver = pool.driver
    await driver.create("s1", 1, None, "op")
    key = await driver.grant("s1", pool.grant())
    await pool.write("s1", 3 * 1024**2)
    await driver.delete("s1")
    assert await driver.find("s1") is None
    assert await driver.leftovers() == []
    await driver.delete("s1")
    await driver.create("s1", 2, None, "anew")
    assert await pool.level("s1", key=key) == ""
    assert await pool.used("s1") < gib(0.01)


async def test_a_share_grows_and_shrinks_with_what_is_in_it(pool: SharesAtWork) -> None:
    driver = pool.driver
    await driver.create("s1", 1, None, "op")
    key = await driver.grant("s1", pool.grant())
    await pool.write("s1", 5 * 1024**2)
    for size_gb in (3, 3, 2, 2):
        await driver.resize("s1", size_gb, "op")
        found = await driver.find("s1")
        assert found is not None
        assert found.size_gb == size_gb
        assert 5 * 1024**2 <= await pool.used("s1") < gib(0.1)
    assert await pool.level("s1", key=key) == "rw"


async def test_a_share_never_gets_smaller_than_what_is_in_it(pool: SharesAtWork) -> None:
    driver = pool.driver
    await driver.create("s1", 2, None, "op")
    await driver.grant("s1", pool.grant())
    await pool.write("s1", gib(1.2))
    with pytest.raises(Conflict, match="are in use") as caught:
        await driver.resize("s1", 1, "op")
    assert caught.value.detail["code"] == IN_USE_SPACE
    found = await driver.find("s1")
    assert found is not None
    assert found.size_gb == 2
    assert await pool.used("s1") >= gib(1.2)


async def test_a_snapshot_keeps_what_was_in_a_share(pool: SharesAtWork) -> None:
    driver = pool.driver
    await driver.create("s1", 1, None, "op")
    has = await driver.stats()
    if not has.snapshots:
        with pytest.raises(Invalid, match="without snapshots"):
            await driver.take_snapshot("s1", "n1")
        with pytest.raises(Invalid, match="without snapshots"):
            await driver.create("s2", 1, SOURCE, "op")
        return
    await driver.grant("s1", pool.grant())
    await pool.write("s1", 5 * 1024**2)
    await driver.take_snapshot("s1", "n1")
    await driver.take_snapshot("s1", "n1")
    await pool.write("s1", 40 * 1024**2)
    if has.from_snapshot:
        await driver.create("s2", 2, SOURCE, "op")
        await driver.create("s2", 2, SOURCE, "again")
        assert 5 * 1024**2 <= await pool.used("s2") < 40 * 1024**2
        assert await pool.level("s2") == ""
    else:
        with pytest.raises(Invalid, match="makes no share from snapshot"):
            await driver.create("s2", 2, SOURCE, "op")
        assert await driver.find("s2") is None
    with pytest.raises(Conflict, match="has the snapshots n1"):
        await driver.delete("s1")
    found = await driver.find("s1")
    assert found is not None
    assert (found.snapshots, len(found.rules)) == (["n1"], 1)
    await driver.delete_snapshot("s1", "n1")
    await driver.delete_snapshot("s1", "n1")
    await driver.delete("s1")
    if await driver.find("s2") is not None:
        assert await pool.used("s2") >= 5 * 1024**2
    assert await driver.leftovers() == []


async def test_a_snapshot_is_found_or_nothing_is_made(pool: SharesAtWork) -> None:
    driver = pool.driver
    has = await driver.stats()
    if not has.snapshots:
        return
    with pytest.raises(NotFound):
        await driver.take_snapshot("s1", "n1")
    if not has.from_snapshot:
        return
    with pytest.raises(NotFound):
        await driver.create("s2", 1, SOURCE, "op")
    await driver.create("s1", 2, None, "op")
    with pytest.raises(NotFound):
        await driver.create("s2", 2, SOURCE, "op")
    await driver.take_snapshot("s1", "n1")
    with pytest.raises(Invalid, match="too small"):
        await driver.create("s2", 1, SOURCE, "op")
    assert await driver.find("s2") is None
    await driver.delete_snapshot("s1", "n1")
    await driver.delete("s1")
    assert await driver.leftovers() == []


async def test_a_pool_counts_what_it_has_promised(pool: SharesAtWork) -> None:
    driver = pool.driver
    before = await driver.stats()
    assert (before.protocol, before.shares, before.provisioned_gib) == (driver.protocol, 0, 0)
    assert 0 < before.free_gib <= before.total_gib
    await driver.create("s1", 2, None, "op")
    after = await driver.stats()
    assert (after.shares, after.provisioned_gib) == (1, 2)
    with pytest.raises(NoCapacity, match="has no room"):
        await driver.create("s2", int(before.total_gib) + 1, None, "op")
    with pytest.raises(NoCapacity, match="has no room"):
        await driver.resize("s1", int(before.total_gib) + 1, "op")
    assert await driver.find("s2") is None
    found = await driver.find("s1")
    assert found is not None
    assert found.size_gb == 2


async def test_rules_that_no_storage_takes_are_refused(pool: SharesAtWork) -> None:
    def refused(**changes: str) -> None:
        grant = pool.grant()
        with pytest.raises(Invalid, match=r"Nobody was\s+let in"):
            check_rule(pool.driver, replace(grant, rule=replace(grant.rule, **changes)))

    refused(type="ip" if pool.is_cephfs else "cephx")
    wrong = (
        ("admin", "a.b", "-n", "", "a b", "x" * 65, "client;rm")
        if pool.is_cephfs
        else (
            *("10.0.0.1/8", "0.0.0.0/0", "::/0", "host", "", "10.9.0.1;Access_Type=RW"),
            *("0.0.0.0/32", "::", "fe80::1%eth0", "fe80::%x; }/64"),
        )
    )
    for to in wrong:
        refused(to=to)
    if pool.is_cephfs:
        with pytest.raises(Invalid, match="names no project"):
            check_rule(pool.driver, replace(pool.grant(), project_id=""))


async def test_an_address_is_known_as_its_network(pool: SharesAtWork) -> None:
    if pool.is_cephfs:
        return

    def named(to: str) -> str:
        grant = pool.grant()
        return check_rule(pool.driver, replace(grant, rule=replace(grant.rule, to=to))).rule.to

    assert named("10.9.0.5") == named("10.9.0.5/32") == "10.9.0.5/32"
    assert named("2001:db8:0::1") == "2001:db8::1/128"
    assert named("10.9.0.0/24") == "10.9.0.0/24"


async def test_a_pool_that_is_opened_again_has_its_shares(pool: SharesAtWork) -> None:
    driver = pool.driver
    await driver.create("s1", 1, None, "op")
    key = await driver.grant("s1", pool.grant())
    before = await driver.find("s1")
    await driver.close()
    await driver.setup()
    await pool.settle()
    assert await driver.find("s1") == before
    assert await pool.level("s1", key=key) == "rw"
