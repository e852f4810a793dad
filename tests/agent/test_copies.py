"""Disks on their way between two hosts: killed agents, damage, full disks, late calls.

Who is a stranger to them: tests/agent/test_copy_strangers.py. What every hypervisor promises of
copies: tests/contract/test_copies.py.
"""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring import certificates
from mooring.agent.waiting import until_told
from mooring.agent_api.copies import Offer
from mooring.agent_api.servers import PowerRequest
from mooring.certificates import Held
from mooring.errors import Conflict, MooringError, NoCapacity, Unavailable
from tests.agent.copying import MIB, Pair, open_pair, root, stop_a_guest
from tests.agent.hosts import BOOT_S, TestHost, open_host, operation
from tests.agent.processes import agent_process

pytestmark = pytest.mark.anyio
PIECES = 40


@pytest.fixture
def stalls() -> bool:
    """Whether the first host gives one MiB, and no more."""
    return False


@pytest.fixture
async def pair(tmp_path: Path, stalls: bool) -> AsyncGenerator[Pair]:
    async with open_pair(tmp_path, stalls=stalls) as made:
        yield made


async def test_what_is_empty_is_neither_sent_nor_stored(pair: Pair) -> None:
    os.truncate(pair.source, 1024 * MIB)
    offer = await pair.offer()
    (disk,) = offer.disks
    assert (disk.size_bytes, disk.data_bytes) == (1024 * MIB, MIB)
    await pair.copy(offer)
    assert pair.copied.stat().st_size == 1024 * MIB
    assert pair.copied.stat().st_blocks * 512 < 2 * MIB
    with pair.copied.open("rb") as copied, pair.source.open("rb") as source:
        assert copied.read(4 * MIB) == source.read(4 * MIB)


async def test_a_disk_that_has_come_is_not_fetched_over_when_its_record_is_damaged(
    pair: Pair,
) -> None:
    offer = await pair.offer()
    await pair.copy(offer)
    pair.copied.write_bytes(b"what its guest has written")
    (pair.copied.parent / "copy.json").write_bytes(b"")
    with pytest.raises(Unavailable, match=r"copy\.json is damaged"):
        await pair.copy(offer)
    assert pair.copied.read_bytes() == b"what its guest has written"


@pytest.mark.kill
async def test_a_copy_goes_on_wherever_its_destination_is_killed(tmp_path: Path) -> None:
    named, there = operation(), tmp_path / "b"
    async with open_host(tmp_path / "a") as (source, _):
        server_id = await stop_a_guest(source.client, tmp_path / "a", PIECES)
        offer = await source.client.put_offer(server_id, operation=operation())
        for point in ("begin", "forced", "forced", "brought", "taken", "acted"):
            async with agent_process(there, "simulated", f"agent/put_copy/{point}") as agent:
                with pytest.raises(Unavailable):
                    await agent.client.put_copy(server_id, offer, operation=named)
                await agent.died()
        async with agent_process(there, "simulated") as agent:
            done = await agent.client.put_copy(server_id, offer, operation=named)
            assert done.is_whole
            whole = root(tmp_path / "a", server_id).read_bytes()
            assert root(there, server_id).read_bytes() == whole
            await agent.client.discard_copy(server_id, operation=operation())
            assert (await agent.client.inventory()).leftovers == []


@pytest.mark.kill
async def test_what_was_on_disk_is_not_fetched_again_and_found_when_it_is_damaged(
    tmp_path: Path,
) -> None:
    named, there = operation(), tmp_path / "b"
    async with open_host(tmp_path / "a") as (source, _):
        server_id = await stop_a_guest(source.client, tmp_path / "a", PIECES)
        offer = await source.client.put_offer(server_id, operation=operation())
        async with agent_process(there, "simulated", "agent/put_copy/forced@2") as agent:
            with pytest.raises(Unavailable):
                await agent.client.put_copy(server_id, offer, operation=named)
            await agent.died()
        with root(there, server_id).with_name("root.coming").open("r+b") as disk:
            (byte,) = os.pread(disk.fileno(), 1, 100)
            os.pwrite(disk.fileno(), bytes([byte ^ 1]), 100)
        async with open_host(there) as (host, _):
            assert (await host.client.show_copy(server_id)).copied_bytes == 32 * MIB
            with pytest.raises(Unavailable, match="came damaged"):
                await host.client.put_copy(server_id, offer, operation=named)
            assert (await host.client.put_copy(server_id, offer, operation=named)).is_whole
        whole = root(tmp_path / "a", server_id).read_bytes()
    assert root(there, server_id).read_bytes() == whole


@pytest.mark.kill
async def test_a_copy_goes_on_when_its_source_was_killed(tmp_path: Path) -> None:
    """Nothing is sent twice: the second source would be killed as the first was."""
    here, dies = tmp_path / "a", "agent/put_offer/sent@25"
    async with open_host(tmp_path / "b") as (host, _):
        async with agent_process(here, "simulated", dies) as source:
            server_id = await stop_a_guest(source.client, here, PIECES)
            giving, copying = operation(), operation()
            offer = await source.client.put_offer(server_id, operation=giving)
            with pytest.raises(Unavailable, match="did not send"):
                await host.client.put_copy(server_id, offer, operation=copying)
            await source.died()
        with pytest.raises(Unavailable, match="did not send"):
            await host.client.put_copy(server_id, offer, operation=copying)
        async with agent_process(here, "simulated", dies) as source:
            again = await source.client.put_offer(server_id, operation=giving)
            assert again.disks == offer.disks
            stale = replace(again, key=offer.key)
            with pytest.raises(Unavailable, match="offered again"):
                await host.client.put_copy(server_id, stale, operation=copying)
            done = await host.client.put_copy(server_id, again, operation=copying)
            assert done.is_whole
    assert root(tmp_path / "b", server_id).read_bytes() == root(here, server_id).read_bytes()


async def test_what_comes_is_thrown_away_unless_it_is_what_was_offered(pair: Pair) -> None:
    offer = await pair.offer()
    wrong = replace(offer, disks=[replace(offer.disks[0], digest="0" * 64)])
    with pytest.raises(Unavailable, match="came damaged"):
        await pair.copy(wrong)
    assert not await pair.is_coming()
    assert list(pair.copied.parent.iterdir()) == []
    more = replace(offer, disks=[replace(offer.disks[0], data_bytes=65536)])
    with pytest.raises(Unavailable, match="More came"):
        await pair.copy(more)
    shorter = replace(offer, disks=[replace(offer.disks[0], size_bytes=2 * MIB)])
    with pytest.raises(Unavailable, match="no sense"):
        await pair.copy(shorter)
    await pair.copy(offer)
    assert pair.copied.read_bytes() == pair.source.read_bytes()


async def test_a_disk_that_was_written_to_is_given_to_nobody(pair: Pair) -> None:
    offer = await pair.offer()
    with pair.source.open("r+b") as disk:
        disk.write(b"other")
    with pytest.raises(Unavailable, match="does not give"):
        await pair.copy(offer)
    await pair.copy(await pair.offer())
    assert pair.copied.read_bytes() == pair.source.read_bytes()


async def test_a_copy_that_would_fill_the_host_is_not_begun(pair: Pair) -> None:
    offer = await pair.offer()
    huge = replace(offer.disks[0], size_bytes=1 << 42, data_bytes=1 << 42)
    with pytest.raises(NoCapacity, match="Make room"):
        await pair.copy(replace(offer, disks=[huge]))
    assert not pair.copied.with_name("root.coming").exists()


@pytest.mark.parametrize("stalls", [True])
async def test_a_copy_that_is_discarded_ends_and_leaves_nothing(pair: Pair) -> None:
    offer, named = await pair.offer(), operation()
    copying = asyncio.create_task(pair.copy(offer, named))
    assert await until_told(pair.is_coming, BOOT_S)
    await pair.there.discard_copy(pair.server_id, operation=named)
    with pytest.raises(Conflict, match=r"ended|undone"):
        await copying
    with pytest.raises(Conflict, match="undone"):
        await pair.copy(offer, named)
    assert (await pair.there.inventory()).leftovers == []


@pytest.mark.parametrize("stalls", [True])
async def test_nothing_is_sent_any_more_once_the_offer_is_withdrawn(pair: Pair) -> None:
    offer = await pair.offer()
    copying = asyncio.create_task(pair.copy(offer))
    assert await until_told(pair.is_coming, BOOT_S)
    await pair.here.withdraw_offer(pair.server_id, operation=operation())
    # Whoever is given nothing more, and is not told so, says in the end that it was not sent.
    host, _, port = offer.address.rpartition(":")
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, int(port))
    with pytest.raises(Unavailable, match="did not send"):
        await copying
    with pytest.raises(Unavailable, match="did not send"):
        await pair.copy(offer)


async def test_an_offer_that_could_not_be_made_keeps_nothing_from_being_asked(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await pair.offer()
    await pair.here.withdraw_offer(pair.server_id, operation=operation())
    with monkeypatch.context() as broken:

        def fail(*_held: Held, asks_callers: bool) -> ssl.SSLContext:
            raise OSError(errno.ENOSPC, f"No space left on device, {asks_callers=}")

        broken.setattr(certificates, "server_context", fail)
        with pytest.raises(MooringError):
            await pair.offer()
    second = await pair.offer()
    assert second.identity == first.identity
    await pair.copy(second)
    assert pair.copied.exists()


async def test_a_door_that_failed_to_open_keeps_no_guest_from_starting(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:

        def fail(certificate: bytes) -> str:
            raise ValueError(certificate)

        broken.setattr(certificates, "enrolled_name", fail)
        with pytest.raises(MooringError):
            await pair.offer()
    await pair.here.set_power(pair.server_id, PowerRequest(state="on"), operation=operation())
    await pair.here.delete_server(pair.server_id, operation=operation())


async def test_an_image_of_the_cache_is_taken_instead_and_never_written_to(pair: Pair) -> None:
    image = await TestHost(pair.there, real=False).push_image()
    cached = pair.directory / "b" / "images" / image.image_id
    content = cached.read_bytes()
    pair.source.write_bytes(content)
    offer = named_after_image(await pair.offer(), image.image_id)
    await pair.here.withdraw_offer(pair.server_id, operation=operation())
    await pair.copy(offer)
    assert pair.copied.samefile(cached)
    await pair.there.discard_copy(pair.server_id, operation=operation())
    pair.source.write_bytes(content[::-1])
    offer = named_after_image(await pair.offer(), image.image_id)
    with pytest.raises(Unavailable):
        await pair.copy(replace(offer, key=offer.key[::-1]))
    coming = pair.copied.with_name("root.coming")
    coming.unlink(missing_ok=True)
    # As a crash leaves it, after which the image was pushed anew.
    coming.hardlink_to(cached)
    await pair.copy(offer)
    assert pair.copied.read_bytes() == content[::-1]
    assert cached.read_bytes() == content


def named_after_image(offer: Offer, image_id: str) -> Offer:
    """Return an offer of a disk as a layer's image is offered."""
    return replace(offer, disks=[replace(offer.disks[0], image_id=image_id)])
