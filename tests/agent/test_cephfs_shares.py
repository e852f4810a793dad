"""What the driver cephfs has beside the contract: how it reads Ceph, and ends in the middle."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.agent.run import Budget, Output, Programs, Runner
from mooring.agent.settings import AgentSettings, SharePoolSettings
from mooring.agent.share_drivers.base import Grant
from mooring.agent.share_drivers.cephfs import CephfsShares
from mooring.agent.share_drivers.opening import open_share_pools
from mooring.agent.share_drivers.options import CephfsShareOptions
from mooring.errors import Conflict, Invalid, Unavailable
from mooring.fence.journal import Journal
from tests.agent.ceph_cluster import POOL_CLIENT, CephCluster
from tests.agent.cephfs_shares import CephfsAtWork, real_cephfs
from tests.agent.share_pools import gib
from tests.sampling import choose

pytestmark = pytest.mark.anyio
OPTIONS = CephfsShareOptions()
POOL = SharePoolSettings(driver="cephfs", cephfs=OPTIONS)
LIFE = 12
"""No verb of a share's life runs more programs."""


class Answers:
    """Gives one answer to all that is asked."""

    def __init__(self, code: int = 0, out: str = "", err: str = "") -> None:
        self._output = Output(code, out, err)

    async def run(
        self, argv: Sequence[str], budget: Budget | None = None, *, operation_key: str = ""
    ) -> Output:
        """Return the answer."""
        del argv, budget, operation_key
        return self._output


class TwoShares:
    """Two shares as Ceph tells of them, of which the first has this note of a rule."""

    def __init__(self, note: str) -> None:
        info = {"bytes_quota": 1 << 30, "bytes_used": 0, "path": "/p", "mon_addrs": ["m:6789"]}
        self._told: dict[str, object] = {
            "subvolume ls": [{"name": "s1"}, {"name": "s2"}],
            "subvolume info": info,
            "metadata ls cephfs s1": {"rule.r1": note},
            "metadata ls cephfs s2": {"rule.r2": "ro client2 p1"},
            "authorized_list cephfs s1": [{"client1": "rw"}],
            "authorized_list cephfs s2": [{"client2": "r"}],
            "": list[str](),
        }

    async def run(
        self, argv: Sequence[str], budget: Budget | None = None, *, operation_key: str = ""
    ) -> Output:
        """Return what is told of that."""
        del budget, operation_key
        asked = " ".join(argv)
        found = next(told for words, told in self._told.items() if words in asked)
        return Output(0, json.dumps(found), "")


@pytest.mark.parametrize("note", ["", "rw", "rw client1", "rw client1 p1 p2", "xx client1 p1"])
async def test_a_share_with_a_damaged_note_hides_no_other_and_says_so(note: str) -> None:
    driver = CephfsShares(POOL, OPTIONS, TwoShares(note))
    first, second = await driver.shares()
    assert (first.share_id, first.size_gb, first.rules) == ("s1", 1, [])
    assert "(rule.r1) is damaged" in first.problem
    assert (second.problem, [rule.to for rule in second.rules]) == ("", ["client2"])
    assert await driver.leftovers() == []
    for call in (driver.find("s1"), driver.revoke("s1", "r1"), driver.delete("s1")):
        with pytest.raises(Unavailable, match="cannot be read"):
            await call


class Ended(BaseException):
    """What the driver's process has come to."""


class EndingRunner:
    """Runs programs up to one of them, and from then on none: the process is no more."""

    def __init__(self, programs: Programs, at: int, *, after: bool) -> None:
        self._programs, self._left, self._after = programs, at, after

    async def run(
        self, argv: Sequence[str], budget: Budget | None = None, *, operation_key: str = ""
    ) -> Output:
        """Run a program, unless the end has come."""
        self._left -= 1
        if self._left < 0:
            if self._left == -1 and self._after:
                await self._programs.run(argv, budget, operation_key=operation_key)
            raise Ended
        return await self._programs.run(argv, budget, operation_key=operation_key)


@pytest.mark.parametrize(
    ("code", "out", "err"),
    [
        (2, "", "Error ENOENT: filesystem 'cephfs' not found"),
        (1, "", "Error EPERM: not allowed"),
        (110, "", "no answer"),
        (0, "not json", ""),
        (0, "{}", ""),
    ],
)
async def test_what_ceph_does_not_tell_is_never_taken_for_a_share_that_is_gone(
    code: int, out: str, err: str
) -> None:
    driver = CephfsShares(POOL, OPTIONS, Answers(code, out, err))
    asked: list[Callable[[], Awaitable[Any]]] = [
        lambda: driver.find("s1"),
        lambda: driver.delete("s1"),
        driver.shares,
        driver.stats,
    ]
    for ask in asked:
        with pytest.raises(Unavailable):
            await ask()


async def test_a_pool_that_ceph_has_not_counted_yet_is_asked_for_again() -> None:
    told = {
        "fs": '[{"name": "cephfs", "data_pools": ["data"]}]',
        "df": '{"pools": []}',
    }

    class JustMade:
        async def run(
            self, argv: Sequence[str], budget: Budget | None = None, *, operation_key: str = ""
        ) -> Output:
            del budget, operation_key
            [answer] = [told[word] for word in argv if word in told]
            return Output(0, answer, "")

    with pytest.raises(Unavailable, match="Ask again"):
        await CephfsShares(POOL, OPTIONS, JustMade()).stats()


async def test_a_share_that_is_gone_is_no_failure() -> None:
    told = "Error ENOENT: subvolume 's1' does not exist"
    driver = CephfsShares(POOL, OPTIONS, Answers(2, "", told))
    assert await driver.find("s1") is None
    await driver.delete("s1")
    await driver.revoke("s1", "r1")
    await driver.delete_snapshot("s1", "n1")


async def test_a_pool_takes_options_of_its_driver(tmp_path: Path, journal: Journal) -> None:
    pool = SharePoolSettings(driver="cephfs")
    settings = AgentSettings(name="h", state_dir=tmp_path, roles=("share",), share_pools=(pool,))
    with pytest.raises(Invalid, match="set `cephfs` in the pool"):
        open_share_pools(settings, Runner(journal), simulated=False)


@pytest.mark.hosts
async def test_a_client_that_is_revoked_loses_what_it_has_mounted(
    tmp_path: Path, journal: Journal, ceph_cluster: CephCluster
) -> None:
    async with real_cephfs(SharePoolSettings(), tmp_path, journal, ceph_cluster) as work:
        for share_id in ("s1", "s2"):
            await work.driver.create(share_id, 1, None, "op")
        key = await work.driver.grant("s1", work.grant())
        assert await work.driver.grant("s2", work.grant("r2")) == key
        assert key is not None
        path = await work.path("s1")
        assert await work.mount(path, "held", work.client(), key)
        try:
            assert await writes(work, tmp_path / "held")
            await work.driver.revoke("s1", "r1")
            assert not await writes(work, tmp_path / "held")
        finally:
            await work.unmount("held")
        # The other share of the same id is as it was.
        assert await work.level("s2", key=key) == "rw"
        own = work.grant("r3")
        with pytest.raises(Invalid, match="the storage's own"):
            await work.driver.grant("s1", named(own, POOL_CLIENT))


@pytest.mark.hosts
async def test_a_rule_made_read_only_takes_the_right_to_write_at_once(
    tmp_path: Path, journal: Journal, ceph_cluster: CephCluster
) -> None:
    async with real_cephfs(SharePoolSettings(), tmp_path, journal, ceph_cluster) as work:
        await work.driver.create("s1", 1, None, "op")
        key = await work.driver.grant("s1", work.grant())
        assert key is not None
        assert await work.mount(await work.path("s1"), "held", work.client(), key)
        try:
            assert await writes(work, tmp_path / "held")
            await work.driver.grant("s1", work.grant(level="ro"))
            assert not await writes(work, tmp_path / "held")
        finally:
            await work.unmount("held")
        assert await work.level("s1", key=key) == "ro"


@pytest.mark.hosts
async def test_a_client_keeps_its_share_in_another_pools_group(
    tmp_path: Path, journal: Journal, ceph_cluster: CephCluster
) -> None:
    for directory in (tmp_path / "one", tmp_path / "other"):
        directory.mkdir()
    async with (
        real_cephfs(SharePoolSettings(), tmp_path / "one", journal, ceph_cluster) as one,
        real_cephfs(SharePoolSettings(), tmp_path / "other", journal, ceph_cluster) as other,
    ):
        await one.driver.create("s1", 1, None, "op")
        await other.driver.create("s2", 1, None, "op")
        await one.driver.grant("s1", one.grant())
        key = await other.driver.grant("s2", other.grant(level="ro"))
        await one.driver.revoke("s1", "r1")
        assert await one.level("s1", key=key) == ""
        assert await other.level("s2", key=key) == "ro"


@pytest.mark.hosts
async def test_a_client_keeps_its_other_share_when_a_deletion_is_cut_short(
    tmp_path: Path, journal: Journal, ceph_cluster: CephCluster
) -> None:
    async with real_cephfs(SharePoolSettings(), tmp_path, journal, ceph_cluster) as work:
        await work.driver.create("s1", 1, None, "op")
        await work.driver.create("s2", 1, None, "op")
        await work.driver.grant("s1", work.grant())
        key = await work.driver.grant("s2", work.grant("r2"))
        words = _Ending("deauthorize", work.programs)
        with pytest.raises(Ended):
            await CephfsShares(work.cephfs.pool, work.cephfs.options, words).delete("s1")
        await work.driver.delete("s1")
        assert await work.driver.find("s1") is None
        assert await work.level("s2", key=key) == "rw"


class _Ending:
    """Runs programs until one with a certain word has ended; then the process is no more."""

    def __init__(self, word: str, programs: Programs) -> None:
        self._word, self._programs = word, programs

    async def run(
        self, argv: Sequence[str], budget: Budget | None = None, *, operation_key: str = ""
    ) -> Output:
        """Run a program."""
        output = await self._programs.run(argv, budget, operation_key=operation_key)
        if self._word in argv:
            raise Ended
        return output


@pytest.mark.hosts
async def test_a_share_takes_no_more_than_its_size(
    tmp_path: Path, journal: Journal, ceph_cluster: CephCluster
) -> None:
    async with real_cephfs(SharePoolSettings(), tmp_path, journal, ceph_cluster) as work:
        await work.driver.create("s1", 1, None, "op")
        with pytest.raises(AssertionError, match="quota exceeded"):
            await work.write("s1", gib(1.1))
        await work.driver.resize("s1", 2, "op")
        await work.write("s1", gib(1.1))
        with pytest.raises(Conflict):
            await work.driver.resize("s1", 1, "op")


@pytest.mark.hosts
async def test_a_share_lives_though_every_verb_is_ended_in_the_middle(
    tmp_path: Path, journal: Journal, ceph_cluster: CephCluster, request: pytest.FixtureRequest
) -> None:
    points = [(at, after) for at in range(LIFE) for after in (False, True)]
    async with real_cephfs(SharePoolSettings(), tmp_path, journal, ceph_cluster) as work:
        for at, after in choose(request.config, "ended shares", points, 1):
            await live(work, at, after=after)


async def live(work: CephfsAtWork, at: int, *, after: bool) -> None:
    """Let a share live its life, each verb ended at one of its programs and asked for again."""
    told, share = f"ended {'after' if after else 'before'} program {at}", f"s{at}{after}"
    options = work.cephfs.options

    async def ended(act: Callable[[CephfsShares], Awaitable[Any]]) -> Any:
        ending = EndingRunner(work.programs, at, after=after)
        with suppress(Ended):
            await act(CephfsShares(work.cephfs.pool, options, ending))
        return await act(CephfsShares(work.cephfs.pool, options, work.programs))

    await ended(lambda driver: driver.create(share, 1, None, "op"))
    key = await ended(lambda driver: driver.grant(share, work.grant()))
    assert await work.level(share, key=key) == "rw", told
    await ended(lambda driver: driver.grant(share, work.grant(level="ro")))
    assert await work.level(share, key=key) == "ro", told
    await ended(lambda driver: driver.resize(share, 2, "op"))
    await ended(lambda driver: driver.take_snapshot(share, "n1"))
    found = await work.driver.find(share)
    assert found is not None
    assert (found.size_gb, found.snapshots) == (2, ["n1"]), told
    await ended(lambda driver: driver.delete_snapshot(share, "n1"))
    await ended(lambda driver: driver.revoke(share, "r1"))
    assert await work.level(share, key=key) == "", told
    assert await work.driver.leftovers() == [], told
    await ended(lambda driver: driver.delete(share))
    assert await work.driver.find(share) is None, told


async def writes(work: CephfsAtWork, point: Path) -> bool:
    """Return whether a client can write where it has a share mounted."""
    return not (await work.programs.run(["touch", "--", str(point / "file")])).code


def named(grant: Grant, to: str) -> Grant:
    """Return a rule for another id."""
    return replace(grant, rule=replace(grant.rule, to=to))
