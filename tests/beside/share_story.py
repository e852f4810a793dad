"""What is done with a real Nova on Mooring's share service, step by step.

This Nova moves servers with their shares itself (specs 003), whatever the microversion.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.beside.nova import ADDRESSES, HOSTS
from tests.beside.nova_story import expect
from tests.beside.users import User
from tests.contract.clients import MIB

FIRST, SECOND = HOSTS[:2]


def gives_shares(user: User) -> None:
    """Give a server shares of NFS and CephFS, and take them away; then delete one with a share."""
    server = user.make_server(image=user.make_image(bytes(MIB)), host=FIRST)
    files, ceph = user.make_share("NFS"), user.make_share("CEPHFS")
    user.add_shares(server, files, ceph)
    user.until_lets_in(files, ADDRESSES[FIRST])
    [client] = user.rules(ceph)
    user.until_lets_in(ceph, client)
    locks = user.share("GET", f"/resource-locks?all_projects=1&resource_id={files}")
    expect([one["resource_action"] for one in locks["resource_locks"]], ["delete"])
    user.remove_shares(server, files)
    user.until_lets_in(files)
    user.remove([server])
    user.until_lets_in(ceph)
    expect(user.share("GET", "/resource-locks?all_projects=1")["resource_locks"], [])
    for share in (files, ceph):
        user.delete_share(share)


def moves_with_shares(user: User) -> None:
    """Move a server with shares of NFS and CephFS cold, back, again, and for good, by Nova."""
    image, other = user.make_image(bytes(MIB)), ""
    server = user.make_server(image=image, host=FIRST)
    files, ceph = user.make_share("NFS"), user.make_share("CEPHFS")
    user.add_shares(server, files, ceph)
    [here] = user.rules(ceph)
    for end, host in (("revertResize", FIRST), ("confirmResize", SECOND)):
        user.act(server, "migrate", {"host": SECOND})
        user.until_server(server, "VERIFY_RESIZE", host=SECOND)
        user.until_lets_in(files, ADDRESSES[FIRST], ADDRESSES[SECOND])
        # Nova has a cephx id for each server at each host.
        [other] = {*user.rules(ceph)} - {here}
        user.until_lets_in(ceph, here, other)
        user.act(server, end)
        user.until_server(server, "ACTIVE", host=host)
        user.until_lets_in(files, ADDRESSES[host])
        user.until_lets_in(ceph, here if host == FIRST else other)
        user.until_shared(server, "active", files, ceph)
    user.remove_shares(server, files, ceph)
    user.remove([server])
    for share in (files, ceph):
        user.delete_share(share)


def shares_among(user: User) -> None:
    """Give one share to two servers of a host and one of another; each rule goes with its last."""
    image, share = user.make_image(bytes(MIB)), user.make_share("NFS")
    servers = [user.make_server(image=image, host=host) for host in (FIRST, FIRST, SECOND)]
    for server in servers:
        user.add_shares(server, share)
    _let_go(user, share, servers, [(FIRST, SECOND), (SECOND,), ()])
    user.remove(servers)
    user.delete_share(share)


def _let_go(
    user: User, share: str, servers: Sequence[str], left: Sequence[tuple[str, ...]]
) -> None:
    """Take a share from one server after the other; see which hosts are let in then."""
    for server, hosts in zip(servers, left, strict=True):
        user.remove_shares(server, share)
        user.until_lets_in(share, *(ADDRESSES[host] for host in hosts))


STEPS = (gives_shares, moves_with_shares, shares_among)
