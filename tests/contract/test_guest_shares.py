"""Shares in guests: mounted before a guest starts, and kept as long as one needs them."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.agent_api.guest_shares import GuestShare, MountedShare, MountRequest
from mooring.agent_api.hosts import AGENT_VERSION
from mooring.agent_api.servers import Guest, PowerRequest, RootDisk, ServerSpec
from mooring.errors import Conflict, Forbidden, Invalid, MooringError, NotFound
from tests.agent.hosts import IMAGE_ID, Share, TestHost, new_id, operation

pytestmark = pytest.mark.anyio


def free_huge_pages() -> int:
    """How many pages of 2 MiB nobody has; 0 where the kernel has none, or others."""
    if "hugetlbfs" not in Path("/proc/mounts").read_text("utf-8", "replace"):
        return 0
    told = Path("/proc/meminfo").read_text("ascii")
    found = re.search(r"HugePages_Free: +(\d+)\n", told)
    return int(found[1]) if found and "Hugepagesize:       2048 kB" in told else 0


HUGE_PAGES = free_huge_pages()
OFF, ON = PowerRequest(state="off"), PowerRequest(state="on")


async def test_a_host_says_how_it_has_shares(host: TestHost) -> None:
    shown = await host.client.host()
    assert shown.version == AGENT_VERSION == 75
    assert shown.shares.address == shown.ip
    assert sorted(shown.shares.mount_bases) == ["CEPHFS", "NFS"]
    assert {"COMPUTE_STORAGE_VIRTIO_FS", "COMPUTE_MEM_BACKING_FILE"} <= {*shown.traits}


async def test_a_guest_has_a_share_from_its_start_on(host: TestHost) -> None:
    server_id, share = new_id(), await host.make_share()
    given = await host.mount(server_id, share)
    assert await host.mount(server_id, share) == given
    shown = (await host.client.host()).shares
    digest = hashlib.md5(share.export.encode(), usedforsecurity=False).hexdigest()
    assert given.path == f"{shown.mount_bases['NFS']}/{digest}"
    guest = await host.boot(server_id, shares=[given])
    assert guest.shares == [given]
    await host.hears(server_id, "share papers mounted")
    await host.client.set_power(server_id, PowerRequest(state="reboot"), operation=operation())
    await host.hears(server_id, "share papers mounted", times=2)
    if host.real:
        await host.hears(server_id, "share papers has 2 lines")
    assert await mounts(host) == await host.client.share_mounts() == [use(server_id, given)]
    await host.remove(server_id)
    await host.unmount(server_id, share)
    assert await mounts(host) == []
    assert (await host.client.inventory()).leftovers == []


async def test_a_share_that_a_running_guest_has_is_not_taken_away(host: TestHost) -> None:
    server_id, share = new_id(), await host.make_share()
    given = await host.mount(server_id, share)
    await host.boot(server_id, shares=[given])
    named = operation()
    for _ in range(2):
        with pytest.raises(Conflict, match="Stop the server first"):
            await host.client.unmount_share(server_id, share.share_id, operation=named)
    assert await mounts(host) == [use(server_id, given)]
    await host.client.set_power(server_id, OFF, operation=operation())
    for _ in range(2):
        await host.unmount(server_id, share)
    assert await mounts(host) == []
    assert (await shown(host, server_id)).shares == []
    guest = await host.client.set_power(server_id, ON, operation=operation())
    assert (guest.state, guest.shares) == ("running", [])


async def test_a_stopped_guest_takes_shares_and_leaves_them(host: TestHost) -> None:
    server_id, first, second = new_id(), await host.make_share(), await host.make_share()
    await host.boot(server_id)
    await host.client.set_power(server_id, OFF, operation=operation())
    given = [await host.mount(server_id, first), await host.mount(server_id, second, "plans")]
    with_both = PowerRequest(state="on", shares=given)
    guest = await host.client.set_power(server_id, with_both, operation=operation())
    assert guest.shares == given
    for tag in ("papers", "plans"):
        await host.hears(server_id, f"share {tag} mounted")
    again = PowerRequest(state="reboot", shares=given[1:])
    guest = await host.client.set_power(server_id, again, operation=operation())
    assert guest.shares == given[1:]
    await host.hears(server_id, "share plans mounted", times=2)
    await host.unmount(server_id, first)
    assert await mounts(host) == [use(server_id, given[1])]
    kept = PowerRequest(state="reboot")
    assert (await host.client.set_power(server_id, kept, operation=operation())).shares == given[1:]


async def test_servers_share_a_mount_and_the_last_one_lets_it_go(host: TestHost) -> None:
    first, second, share = new_id(), new_id(), await host.make_share()
    given = await host.mount(first, share)
    assert await host.mount(second, share) == given
    await host.unmount(first, share)
    assert await mounts(host) == [use(second, given)]
    await define(host, second, [given])
    await host.unmount(second, share)
    assert await mounts(host) == []
    assert (await shown(host, second)).shares == []


async def test_no_guest_starts_without_the_mounts_of_its_shares(host: TestHost) -> None:
    server_id, other_id, share = new_id(), new_id(), await host.make_share()
    given = await host.mount(other_id, share)
    with pytest.raises(Conflict, match=f"{share.share_id} is not mounted at {given.path}"):
        await host.boot(server_id, shares=[given])
    assert await host.client.show_server(server_id) is None
    await define(host, server_id, [given])
    with pytest.raises(Conflict, match="was not started"):
        await host.client.set_power(server_id, ON, operation=operation())
    assert (await shown(host, server_id)).state == "stopped"
    await host.mount(server_id, share)
    guest = await host.client.set_power(server_id, ON, operation=operation())
    assert (guest.state, guest.shares) == ("running", [given])
    # One that runs goes on when it cannot be started again.
    elsewhere = replace(given, share_id=new_id(), tag="plans")
    power = PowerRequest(state="reboot", shares=[given, elsewhere])
    with pytest.raises(Conflict, match="is not mounted"):
        await host.client.set_power(server_id, power, operation=operation())
    assert await shown(host, server_id) == guest


async def test_memory_is_shared_exactly_as_long_as_there_are_shares(host: TestHost) -> None:
    server_id, share = new_id(), await host.make_share()
    given = await host.mount(server_id, share)
    for shares in ([given], [], [given]):
        power = PowerRequest(state="off", shares=shares)
        if await host.client.show_server(server_id) is None:
            await define(host, server_id, shares)
        guest = await host.client.set_power(server_id, power, operation=operation())
        assert guest.shares == shares
    await host.client.set_power(server_id, ON, operation=operation())
    assert (await shown(host, server_id)).shares == [given]


@pytest.mark.parametrize(
    "export",
    [
        "",
        "/srv/shares",
        "192.0.2.7",
        "192.0.2.7:srv",
        "192.0.2.7:/srv/../etc",
        "192.0.2.7:/srv/./x",
        "192.0.2.7:/srv:/etc",
        "192.0.2.7:/srv\n/x",
        "192.0.2.7:/srv\x1b[2J",
        "192.0.2.7:/srv /x",
        "-o:/srv",
        "--options=x:/srv",
        "a,b:/srv",
        "fe80::1:/srv",
        f"192.0.2.7:/{'x' * 2000}",
    ],
)
async def test_what_is_no_export_is_refused_and_leaves_no_trace(
    host: TestHost, export: str
) -> None:
    request = MountRequest(export=export, protocol="NFS")
    with pytest.raises(Invalid, match="no export location") as caught:
        await host.client.mount_share(new_id(), new_id(), request, operation=operation())
    assert caught.value.public.isprintable()
    assert await mounts(host) == []
    assert (await host.client.inventory()).leftovers == []


@pytest.mark.parametrize(
    "request_",
    [
        MountRequest(export="192.0.2.7:/srv", protocol="NFS", access_to="alice"),
        MountRequest(export="192.0.2.7:6789:/srv", protocol="CEPHFS", access_to="alice"),
        MountRequest(export="192.0.2.7:6789:/srv", protocol="CEPHFS", access_key="c2VjcmV0"),
        MountRequest(
            export="192.0.2.7:6789:/srv",
            protocol="CEPHFS",
            access_to="a,secret=b",
            access_key="c2VjcmV0",
        ),
        MountRequest(
            export="192.0.2.7:6789:/srv", protocol="CEPHFS", access_to="alice", access_key="x\ny"
        ),
    ],
)
async def test_who_mounts_is_said_as_the_protocol_wants_it(
    host: TestHost, request_: MountRequest
) -> None:
    with pytest.raises(Invalid, match="Nothing was mounted") as caught:
        await host.client.mount_share(new_id(), new_id(), request_, operation=operation())
    assert not request_.access_key or request_.access_key not in str(caught.value)
    assert await mounts(host) == []


async def test_whom_no_rule_lets_in_mounts_nothing(host: TestHost) -> None:
    share = await host.make_share(to="192.0.2.77")
    server_id = new_id()
    with pytest.raises(Forbidden, match="allow access"):
        await host.mount(server_id, share)
    assert await mounts(host) == []
    await host.unmount(server_id, share)
    assert (await host.client.inventory()).leftovers == []


async def test_a_share_that_is_noted_at_one_place_is_not_mounted_at_another(
    host: TestHost,
) -> None:
    server_id, share, other = new_id(), await host.make_share(), await host.make_share()
    given = await host.mount(server_id, share)
    with pytest.raises(Conflict, match="from another export"):
        await host.mount(server_id, replace_export(share, other.export))
    assert await mounts(host) == [use(server_id, given)]
    await host.unmount(server_id, share)


async def test_what_was_undone_is_not_mounted_late(host: TestHost) -> None:
    server_id, share, named = new_id(), await host.make_share(), operation()
    await host.client.unmount_share(server_id, share.share_id, operation=named)
    request = MountRequest(export=share.export, protocol="NFS")
    with pytest.raises(Conflict, match=r"has been undone|came too late"):
        await host.client.mount_share(server_id, share.share_id, request, operation=named)
    assert await mounts(host) == []


@pytest.mark.parametrize(
    ("tags", "place"),
    [
        (["a" * 37], ""),
        ([""], ""),
        (["a_b"], ""),
        (["a/../b"], ""),
        (["a", "a"], ""),
        (["a"], "/etc"),
        (["a"], "{base}"),
        (["a"], "{base}/.."),
        (["a"], "{base}/x/y"),
        ([f"t{number}" for number in range(33)], ""),
    ],
)
async def test_what_no_guest_can_have_is_refused(
    host: TestHost, tags: list[str], place: str
) -> None:
    base = (await host.client.host()).shares.mount_bases["NFS"]
    path = place.format(base=base) or f"{base}/0123456789abcdef"
    shares = [GuestShare(share_id=new_id(), tag=tag, path=path) for tag in tags]
    server_id = new_id()
    with pytest.raises(Invalid, match="Nothing was changed"):
        await define(host, server_id, shares)
    assert await host.client.show_server(server_id) is None


async def test_a_size_of_pages_that_is_none_is_refused(host: TestHost) -> None:
    server_id, share = new_id(), await host.make_share()
    given = await host.mount(server_id, share)
    with pytest.raises(Invalid, match="hw:mem_page_size"):
        await define(host, server_id, [given], pages="enormous")
    assert await host.client.show_server(server_id) is None
    # It counts for nothing as long as there are no shares.
    await define(host, server_id, [], pages="enormous")
    power = PowerRequest(state="on", shares=[given])
    with pytest.raises(Invalid, match="hw:mem_page_size"):
        await host.client.set_power(server_id, power, operation=operation())
    assert (await shown(host, server_id)).state == "stopped"
    await define(host, server_id, [given], pages="small")
    await host.client.set_power(server_id, ON, operation=operation())
    await host.client.set_power(server_id, OFF, operation=operation())
    await host.unmount(server_id, share)


@pytest.mark.hosts
@pytest.mark.skipif(
    HUGE_PAGES < 64, reason="too few free huge pages (vm.nr_hugepages) here, or no hugetlbfs"
)
@pytest.mark.parametrize("kind", ["libvirt"], indirect=True)
async def test_a_guest_with_a_share_has_huge_pages_as_its_flavor_says(host: TestHost) -> None:
    server_id, share = new_id(), await host.make_share()
    given = await host.mount(server_id, share)
    await define(host, server_id, [given], pages="large")
    await host.client.set_power(server_id, ON, operation=operation())
    await host.hears(server_id, "share papers mounted")
    assert free_huge_pages() <= HUGE_PAGES - 64
    await host.remove(server_id)


async def test_an_export_that_is_not_there_is_refused_for_good(host: TestHost) -> None:
    server_id = new_id()
    request = MountRequest(export="127.0.0.1:/nowhere/share-1", protocol="NFS")
    with pytest.raises(MooringError) as caught:
        await host.client.mount_share(server_id, new_id(), request, operation=operation())
    if not host.real:
        assert isinstance(caught.value, NotFound)
    assert await mounts(host) == []
    assert (await host.client.inventory()).leftovers == []


async def mounts(host: TestHost) -> list[MountedShare]:
    return (await host.client.inventory()).share_mounts


def use(server_id: str, given: GuestShare) -> MountedShare:
    return MountedShare(server_id=server_id, share_id=given.share_id, path=given.path, mounted=True)


def replace_export(share: Share, export: str) -> Share:
    return Share(share.share_id, share.rule_id, share.pool, export)


async def shown(host: TestHost, server_id: str) -> Guest:
    guest = await host.client.show_server(server_id)
    assert guest is not None
    return guest


async def define(host: TestHost, server_id: str, shares: list[GuestShare], pages: str = "") -> None:
    """Have a guest that is off."""
    await host.push_image()
    spec = ServerSpec(
        name="guest",
        vcpus=1,
        memory_mib=128,
        root=RootDisk(image_id=IMAGE_ID, size_gib=1),
        shares=shares,
        mem_page_size=pages,
        network="none",
        power="off",
    )
    await host.client.put_server(server_id, spec, operation=operation())
