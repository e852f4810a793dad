"""What is done with Mooring's compute service on a real Manila, step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.beside.cloud import share_addresses
from tests.beside.manila import SHARE, Manila
from tests.beside.nova_story import expect
from tests.beside.users import User
from tests.contract.clients import MIB, Refused

TYPE = "files"
WITH_SHARES = "2.106"
"""From this microversion of compute on servers move with their shares."""
SHARED = ("--os-compute-api-version", "2.97")
HIDDEN = "******"


def prepare(user: User) -> None:
    """Make the type of the shares, and wait until the scheduler knows of the storage."""
    user.shell.run("share", "type", "create", TYPE, "False")
    user.until(
        lambda: user.share("GET", "/scheduler-stats/pools")["pools"], lambda seen: len(seen) == 1
    )


def _refused(user: User, name: str, *words: str) -> str:
    """Return what a user's command says that is refused."""
    try:
        user.cloud.shell(name).run(*words)
    except Refused as error:
        return str(error)
    raise AssertionError(f"{' '.join(words)} went well")


def adds_and_removes(user: User) -> None:
    """Give a server of a user a share and take it away, by the stock command."""
    demo, image = user.cloud.shell("demo"), user.cloud.http("demo").image(user.name("image"))
    small = ("--image", image, "--flavor", "beside", "--nic", "none", "--wait")
    server = demo.ask("server", "create", *small, "sharing")["id"]
    kind = ("--share-type", TYPE, "--name", "papers", "--wait")
    share = demo.ask("share", "create", "NFS", "1", *kind)["id"]
    demo.run("server", "stop", server)
    user.until_server(server, "SHUTOFF")
    demo.run(*SHARED, "server", "add", "share", server, "papers", "--tag", "papers")
    user.until_shared(server, "inactive", share)
    user.until_lets_in(share, _address(user, server))
    demo.run("server", "start", server)
    user.until_server(server, "ACTIVE")
    [listed] = demo.ask(*SHARED, "server", "share", "list", server)
    expect([listed[key] for key in ("Share ID", "Status", "Tag")], [share, "active", "papers"])
    shown = demo.ask(*SHARED, "server", "share", "show", server, share)
    expect((shown["Status"], shown["Tag"]), ("active", "papers"))
    _is_locked(user, share)
    demo.run("server", "stop", server)
    user.until_server(server, "SHUTOFF")
    demo.run(*SHARED, "server", "remove", "share", server, "papers")
    user.until_shared(server, "")
    user.until_lets_in(share)
    expect(_locks(user), [])
    demo.run("share", "delete", share, "--wait")
    demo.run("server", "delete", server, "--wait")
    demo.run("image", "delete", image)


def _is_locked(user: User, share: str) -> None:
    """See that the user does not see whom the rule lets in, and removes neither it nor the share.

    Locks of 2.82, facts/shared_file_systems.md 5.
    """
    [rule] = user.cloud.shell("demo").ask("share", "access", "list", share)
    expect(rule["Access To"], HIDDEN)
    seen = sorted((one["resource_type"], one["resource_action"]) for one in _locks(user))
    expect(seen, [("access_rule", "delete"), ("access_rule", "show"), ("share", "delete")])
    for words in (("share", "delete", share), ("share", "access", "delete", share, rule["ID"])):
        expect("HTTP 403" in _refused(user, "demo", *words), True)


def _locks(user: User) -> list[dict[str, Any]]:
    return user.share("GET", "/resource-locks?all_projects=1")["resource_locks"]


def _address(user: User, server: str) -> str:
    """Return from which address the host of a server mounts shares."""
    return share_addresses(user.cloud)[user.server(server)["OS-EXT-SRV-ATTR:host"]]


def _cephx_id(user: User, share: str) -> str:
    return f"mooring-{user.share('GET', f'/shares/{share}')['share']['project_id']}"


def moves(user: User) -> None:
    """Move a server with shares of NFS and CephFS cold, back, at once again, and for good."""
    server = user.make_server(image=user.make_image(bytes(MIB)))
    files, ceph = user.make_share("NFS", TYPE), user.make_share("CEPHFS", TYPE)
    user.add_shares(server, files, ceph)
    _moves_there_and_back(user, server, {files: "active", ceph: "active"}, ceph, "ACTIVE")
    user.remove_shares(server, files, ceph)
    user.remove([server])
    for share in (files, ceph):
        user.delete_share(share)


def moves_off(user: User) -> None:
    """Move a server that is off with its share, which is not mounted before the next start."""
    server, share = (
        user.make_server(image=user.make_image(bytes(MIB))),
        user.make_share("NFS", TYPE),
    )
    user.add_shares(server, share)
    user.stop(server)
    user.until_shared(server, "inactive", share)
    _moves_there_and_back(user, server, {share: "inactive"}, "", "SHUTOFF")
    user.start(server)
    user.until_shared(server, "active", share)
    user.remove([server])
    user.delete_share(share)


def _moves_there_and_back(
    user: User, server: str, shares: Mapping[str, str], ceph: str, status: str
) -> None:
    """Migrate, revert, migrate, confirm; each time Manila lets in whom specs/003 says."""
    first = _address(user, server)
    [other] = {*share_addresses(user.cloud).values()} - {first}

    def lets_in(*hosts: str) -> None:
        for share in shares:
            user.until_lets_in(share, *([_cephx_id(user, share)] if share == ceph else hosts))
        expect(user.shares(server), shares)

    lets_in(first)
    # The second time the rule of the other host may still be going.
    for end, left in (("revertResize", first), ("confirmResize", other)):
        user.act(server, "migrate", version=WITH_SHARES)
        user.until_server(server, "VERIFY_RESIZE")
        expect(_address(user, server), other)
        expect(all(user.rules(one).get(other) == "active" for one in shares if one != ceph), True)
        lets_in(first, other)
        user.act(server, end)
        user.until_server(server, status)
        expect(_address(user, server), left)
        if end == "confirmResize":
            lets_in(left)


def keeps_rules(user: User) -> None:
    """Leave rules alone on which another server relies, or that somebody else has made."""
    image, share = user.make_image(bytes(MIB)), user.make_share("NFS", TYPE)
    addresses = share_addresses(user.cloud)
    first, second = sorted(addresses)
    servers = [user.make_server(image=image, host=first) for _ in range(2)]
    for server in servers:
        user.add_shares(server, share)
    user.until_lets_in(share, addresses[first])
    user.act(servers[0], "migrate", version=WITH_SHARES)
    user.until_server(servers[0], "VERIFY_RESIZE", host=second)
    user.act(servers[0], "confirmResize")
    user.until_server(servers[0], "ACTIVE")
    user.until_lets_in(share, *addresses.values())
    user.remove_shares(servers[1], share)
    user.until_lets_in(share, addresses[second])
    # A rule that is there by a user's wish is used, and left.
    allow = {"access_type": "ip", "access_to": addresses[first], "access_level": "rw"}
    user.share("POST", f"/shares/{share}/action", {"allow_access": allow})
    user.until_lets_in(share, *addresses.values())
    user.begin_share(servers[1], share)
    user.until_shared(servers[1], "inactive", share)
    user.remove(servers)
    user.until_lets_in(share, addresses[first])
    [rule] = user.share("GET", f"/share-access-rules?share_id={share}")["access_list"]
    deny = {"access_id": rule["id"]}
    user.share("POST", f"/shares/{share}/action", {"deny_access": deny})
    user.delete_share(share)


def fails_with(manila: Manila) -> Callable[[User], None]:
    """Return the step of a storage that refuses."""

    def fails(user: User) -> None:
        """Add a share whose storage lets nobody in: it is in error, and no rule is left."""
        fails_and_is_removed(user, manila)

    return fails


def fails_and_is_removed(user: User, manila: Manila) -> None:
    """Add a share whose storage lets nobody in, remove it, and add it when it does."""
    server, share = (
        user.make_server(image=user.make_image(bytes(MIB))),
        user.make_share("NFS", TYPE),
    )
    user.stop(server)
    with manila.refusing():
        user.begin_share(server, share)
        user.until_shared(server, "error", share)
        user.until_lets_in(share)
    user.remove_share(server, share)
    user.start(server)
    user.add_shares(server, share)
    user.until_lets_in(share, _address(user, server))
    user.remove([server])
    user.delete_share(share)


def waits_for(manila: Manila) -> Callable[[User], None]:
    """Return the step of a `manila-share` that is away."""

    def waits(user: User) -> None:
        """Kill `manila-share` before a share is added, and before it is removed."""
        waits_for_storage(user, manila)

    return waits


def waits_for_storage(user: User, manila: Manila) -> None:
    """Add a share while nobody applies rules, remove it so; each ends when somebody does."""
    server, share = (
        user.make_server(image=user.make_image(bytes(MIB))),
        user.make_share("NFS", TYPE),
    )
    user.stop(server)
    manila.running.kill(SHARE)
    user.begin_share(server, share)
    client = _address(user, server)
    user.until(lambda: user.rules(share), lambda seen: seen == {client: "queued_to_apply"})
    expect(user.shares(server), {share: "attaching"})
    manila.start(SHARE)
    user.until_shared(server, "inactive", share)
    user.until_lets_in(share, client)
    manila.running.kill(SHARE)
    user.compute("DELETE", f"/servers/{server}")
    user.until(lambda: user.rules(share), lambda seen: seen == {client: "queued_to_deny"})
    expect(user.server(server)["OS-EXT-STS:task_state"], "deleting")
    manila.start(SHARE)
    user.until_gone("compute", f"/servers/{server}")
    user.delete_share(share)


def steps(manila: Manila) -> tuple[Callable[[User], None], ...]:
    """Return the steps of the story."""
    return (
        adds_and_removes,
        moves,
        moves_off,
        keeps_rules,
        fails_with(manila),
        waits_for(manila),
    )
