"""What the driver nfs has beside the contract: its server, its files, and ends in the middle."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.agent.pool_threads import PoolThreads
from mooring.agent.run import Budget, Output, Runner
from mooring.agent.settings import AgentSettings, SharePoolSettings
from mooring.agent.share_drivers.ganesha import Export, Ganesha, tell
from mooring.agent.share_drivers.nfs import NfsShares
from mooring.agent.share_drivers.opening import open_share_pools
from mooring.agent.share_drivers.options import NfsShareOptions
from mooring.agent.share_drivers.records import KeptRule
from mooring.agent.waiting import until_told
from mooring.errors import Conflict, Invalid, NoCapacity, Unavailable
from mooring.fence.journal import Journal
from tests.agent.hosts import CHECKOUT
from tests.agent.killed_share import Orders, When, act
from tests.agent.nfs_server import ADDRESS, NfsServer, nfs_server, why_no_nfs_server
from tests.agent.nfs_shares import NfsAtWork, unmount
from tests.agent.places import place
from tests.agent.share_pools import gib
from tests.sampling import choose

pytestmark = pytest.mark.anyio
NO_SERVER = why_no_nfs_server()
real = [pytest.mark.hosts, pytest.mark.skipif(bool(NO_SERVER), reason=NO_SERVER)]
RULES = {
    "r1": KeptRule("ip", "10.9.0.0/24", "ro"),
    "r2": KeptRule("ip", "10.9.0.1/32", "rw"),
    "r3": KeptRule("ip", "::/0", "ro"),
    "r4": KeptRule("ip", "2001:db8::/64", "rw"),
    "r5": KeptRule("ip", "2001:db8::1/128", "ro"),
}
LIFE = 20
"""No verb of a share's life runs more programs."""


class AtHand:
    """A pool on a server that is at hand, to be stopped and opened again."""

    def __init__(self, server: NfsServer, driver: NfsShares, runner: Runner) -> None:
        self.server, self.driver = server, driver
        self.work = NfsAtWork(driver, runner, server.net)
        self.runner = runner

    async def reboot(self) -> None:
        """Leave the machine as it is after a start: nothing is mounted, nothing is given away."""
        await self.driver.close()
        await self.server.stop()
        await unmount(self.work, self.runner)


@pytest.fixture
async def at_hand(tmp_path: Path, journal: Journal) -> AsyncGenerator[AtHand]:
    directory, runner = tmp_path / "shares", Runner(journal)
    async with nfs_server(directory / "exports" / "index.conf") as server:
        options = NfsShareOptions(address=ADDRESS, bus=server.bus)
        pool = SharePoolSettings(driver="nfs", nfs=options)
        driver = NfsShares(pool, options, place(directory), runner)
        await driver.setup()
        opened = AtHand(server, driver, runner)
        try:
            yield opened
        finally:
            await opened.reboot()


def test_an_export_is_told_with_its_narrowest_clients_first() -> None:
    export = Export(1000, "/shares/s1", Path("/srv/s1/data"), RULES)
    clients = [line.strip() for line in tell(export).splitlines() if "CLIENT" in line]
    assert clients == [
        "CLIENT { Clients = 2001:db8::1; Access_Type = RO; }",
        "CLIENT { Clients = 2001:0db8:0000:0000:0000:0000:0000:0000/64; Access_Type = RW; }",
        "CLIENT { Clients = 10.9.0.1; Access_Type = RW; }",
        "CLIENT { Clients = 10.9.0.0/24; Access_Type = RO; }",
        "CLIENT { Clients = 0::/1, 8000::/1; Access_Type = RO; }",
    ]
    assert "Access_Type = None;" in tell(export)


class Taken:
    """A Ganesha that takes in all it is told."""

    async def run(
        self, argv: Sequence[str], budget: Budget | None = None, *, operation_key: str = ""
    ) -> Output:
        """Return what it says."""
        del argv, budget, operation_key
        return Output(0, "1 exports updated", "")


async def test_shares_that_change_at_once_keep_one_index(tmp_path: Path) -> None:
    ganesha = Ganesha("unix:path=/nowhere", tmp_path, Taken(), PoolThreads("pool"))
    ganesha.prepare()
    names = [f"s{number}" for number in range(24)]

    def export(number: int) -> Export:
        return Export(1000 + number, f"/shares/{number}", tmp_path, RULES)

    await asyncio.gather(*(ganesha.put(name, export(at)) for at, name in enumerate(names)))
    gone, kept = names[::2], names[1::2]
    await asyncio.gather(
        *(ganesha.remove(name, 0) for name in gone),
        *(ganesha.put(name, export(at)) for at, name in enumerate(kept)),
    )
    index = read(tmp_path / "index.conf").splitlines()
    assert sorted(index) == sorted(f'%include "{tmp_path / f"share-{one}.conf"}"' for one in kept)
    assert ganesha.leftovers(kept) == []


def read(path: Path) -> str:
    return path.read_text("utf-8")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (None, "no options for it"),
        (NfsShareOptions(address="h", export_ids=(0, 5)), "not of 1 to"),
        (NfsShareOptions(address="h", export_ids=(6, 5)), "not of 1 to"),
        (NfsShareOptions(address="h", export_ids=(1, 65536)), "not of 1 to"),
    ],
)
async def test_wrong_options_are_refused(
    tmp_path: Path, journal: Journal, options: NfsShareOptions | None, told: str
) -> None:
    if os.geteuid() != 0:
        told = "takes an agent that is root|not of 1 to"
    pool = SharePoolSettings(driver="nfs", nfs=options)
    settings = AgentSettings(name="h", state_dir=tmp_path, roles=("share",), share_pools=(pool,))
    with pytest.raises(Invalid, match=told):
        open_share_pools(settings, Runner(journal), simulated=False)


async def test_two_pools_of_one_server_share_no_numbers(tmp_path: Path, journal: Journal) -> None:
    def pool(name: str, first: int, last: int) -> SharePoolSettings:
        options = NfsShareOptions(address="h", export_ids=(first, last))
        return SharePoolSettings(name=name, driver="nfs", nfs=options)

    settings = AgentSettings(
        name="h",
        state_dir=tmp_path,
        roles=("share",),
        share_pools=(pool("a", 10, 20), pool("b", 20, 30)),
    )
    with pytest.raises(Invalid, match="Pool b has export_ids that another"):
        open_share_pools(settings, Runner(journal), simulated=False)


class TestReal:
    pytestmark = real

    async def test_of_networks_that_overlap_the_narrowest_decides(self, at_hand: AtHand) -> None:
        driver, work = at_hand.driver, at_hand.work
        await driver.create("s1", 1, None, "op")
        for rule_id, kept in RULES.items():
            grant = work.grant(rule_id, level=kept.level)
            rule = msgspec.structs.replace(grant.rule, to=kept.to)
            await driver.grant("s1", msgspec.structs.replace(grant, rule=rule))
        assert await work.level("s1", number=1) == "rw"
        assert await work.level("s1", number=2) == "ro"
        await driver.revoke("s1", "r2")
        assert await work.level("s1", number=1) == "ro"

    async def test_a_share_takes_no_more_than_its_size(self, at_hand: AtHand) -> None:
        driver, work = at_hand.driver, at_hand.work
        await driver.create("s1", 1, None, "op")
        with pytest.raises(AssertionError, match="No space left"):
            await work.write("s1", gib(1.1))
        await driver.resize("s1", 2, "op")
        await work.write("s1", gib(1.1))
        with pytest.raises(Conflict):
            await driver.resize("s1", 1, "op")

    async def test_a_server_that_starts_anew_gives_away_the_same(self, at_hand: AtHand) -> None:
        driver, work = at_hand.driver, at_hand.work
        await driver.create("s1", 1, None, "op")
        await driver.grant("s1", work.grant())
        await at_hand.server.stop()
        with pytest.raises(Unavailable, match="see that Ganesha runs"):
            await driver.grant("s1", work.grant("r2", number=2))
        with pytest.raises(Unavailable):
            await driver.stats()
        await at_hand.server.start()
        assert [await work.level("s1", number=one) for one in (1, 2)] == ["rw", "rw"]
        await driver.revoke("s1", "r1")
        assert await work.level("s1", number=1) == ""

    async def test_a_revocation_ends_only_when_the_server_knows(self, at_hand: AtHand) -> None:
        driver, work = at_hand.driver, at_hand.work
        await driver.create("s1", 1, None, "op")
        await driver.grant("s1", work.grant())
        await at_hand.server.stop()
        with pytest.raises(Unavailable):
            await driver.revoke("s1", "r1")
        with pytest.raises(Unavailable):
            await driver.delete("s1")
        await at_hand.server.start()
        await driver.revoke("s1", "r1")
        assert await work.level("s1") == ""
        await driver.delete("s1")
        assert await driver.leftovers() == []

    async def test_a_share_that_is_not_mounted_is_not_given_away_empty(
        self, at_hand: AtHand
    ) -> None:
        driver, work = at_hand.driver, at_hand.work
        await driver.create("s1", 1, None, "op")
        await driver.grant("s1", work.grant())
        await work.write("s1", 1024**2)
        await at_hand.reboot()
        await at_hand.server.start()
        assert await work.level("s1") == ""
        await driver.setup()
        await are_restored(driver)
        assert await work.level("s1") == "rw"
        assert (driver.data("s1") / "content").stat().st_size == 1024**2

    async def test_a_share_whose_file_is_damaged_keeps_no_other_and_is_deleted(
        self, at_hand: AtHand
    ) -> None:
        driver, work = at_hand.driver, at_hand.work
        for share_id in ("s1", "s2"):
            await driver.create(share_id, 1, None, "op")
            await driver.grant(share_id, work.grant())
        await at_hand.reboot()
        image = driver.data("s1").parents[2] / "images" / "share-s1"
        with image.open("r+b") as file:
            # Where btrfs has its heads.
            for at in (64 * 1024, 64 * 1024**2):
                file.seek(at)
                file.write(bytes(4096))
        await at_hand.server.start()
        await driver.setup()
        await are_restored(driver, but="s1")
        assert await work.level("s2") == "rw"
        assert await work.level("s1") == ""
        [damaged] = [one for one in await driver.shares() if one.share_id == "s1"]
        assert f"repair the file {image}" in damaged.problem
        assert (await driver.stats()).provisioned_gib == 2
        await driver.delete("s1")
        assert not image.exists()
        assert await driver.leftovers() == []

    async def test_what_belongs_to_no_share_is_told(self, at_hand: AtHand) -> None:
        driver = at_hand.driver
        await driver.create("s1", 1, None, "op")
        images = driver.data("x").parents[2] / "images"
        begun, stray = images / "share-s1.op.partial", images / "share-s2.op.partial"
        for path in (begun, stray):
            path.touch()
        assert await driver.leftovers() == [str(stray)]
        await driver.setup()
        assert await driver.leftovers() == []
        assert [share.share_id for share in await driver.shares()] == ["s1"]

    async def test_a_pool_without_numbers_makes_no_share(self, at_hand: AtHand) -> None:
        options = msgspec.structs.replace(
            NfsShareOptions(address=ADDRESS, bus=at_hand.server.bus), export_ids=(7, 7)
        )
        directory = at_hand.driver.data("x").parents[2]
        driver = NfsShares(at_hand.driver.pool, options, place(directory), at_hand.runner)
        await driver.create("s1", 1, None, "op")
        with pytest.raises(NoCapacity, match="no number left"):
            await driver.create("s2", 1, None, "op")
        await driver.delete("s1")
        await driver.create("s2", 1, None, "op")
        assert await driver.leftovers() == []

    async def test_a_share_lives_though_every_verb_is_killed(
        self, at_hand: AtHand, request: pytest.FixtureRequest
    ) -> None:
        whens: tuple[When, ...] = ("before", "during", "after")
        points: list[tuple[int, When]] = [(at, when) for at in range(LIFE) for when in whens]
        for at, when in choose(request.config, "killed shares", points, 3):
            await live(at_hand, f"{at}{when}", at, when)


async def are_restored(driver: NfsShares, *, but: str = "") -> None:
    """Wait until all shares are given away again."""

    async def look() -> bool:
        return {one.share_id for one in await driver.shares() if one.problem} <= {but}

    assert await until_told(look, 30)


async def live(at_hand: AtHand, name: str, at: int, when: When) -> None:
    """Let a share live its life, each verb killed at one of its programs and asked for again."""
    driver, work = at_hand.driver, at_hand.work
    share, other, told = f"s{name}", f"t{name}", f"killed {when} program {at}"

    async def killed(verb: str, *arguments: Any) -> None:
        orders = Orders(
            directory=str(driver.data("x").parents[2]),
            bus=at_hand.server.bus,
            address=ADDRESS,
            verb=verb,
            arguments=msgspec.to_builtins(list(arguments)),
            at=at,
            when=when,
        )
        await end_in_the_middle(orders)
        await driver.setup()
        await act(driver, verb, orders.arguments)

    await killed("create", share, 1, None, "op")
    await killed("grant", share, work.grant())
    assert await work.level(share) == "rw", told
    await work.write(share, 5 * 1024**2)
    for size_gb in (3, 2):
        await killed("resize", share, size_gb, "op")
        found = await driver.find(share)
        assert found is not None
        assert found.size_gb == size_gb, told
    await killed("take_snapshot", share, "n1")
    await work.write(share, 9 * 1024**2)
    await killed("create", other, 2, {"share": share, "snapshot": "n1"}, "op")
    assert (driver.data(other) / "content").stat().st_size == 5 * 1024**2, told
    await killed("delete_snapshot", share, "n1")
    await killed("revoke", share, "r1")
    assert await work.level(share) == "", told
    for each in (share, other):
        await killed("delete", each)
        assert await driver.find(each) is None, told
    assert await driver.leftovers() == [], told


async def end_in_the_middle(orders: Orders) -> None:
    """Carry out orders in a process that may end before they are."""
    script = Path(__file__).with_name("killed_share.py")
    paths = f"{CHECKOUT / 'src'}:{CHECKOUT}"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(script), msgspec.json.encode(orders).decode()),
        env={"PYTHONPATH": paths, "PATH": os.environ["PATH"]},
    )
    assert await process.wait() in {0, -9}
    journal = Journal(Path(orders.directory).parent / "killed.sqlite")
    await Runner(journal, str(Path(orders.directory).parent)).end_leftovers()
    await journal.close()
