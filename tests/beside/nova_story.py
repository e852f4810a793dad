"""What is done with a real Nova on Mooring's other services, step by step."""

from __future__ import annotations

from typing import Any

from tests.beside.cloud import POOLS
from tests.beside.nova import HOSTS
from tests.beside.programs import Failed
from tests.beside.users import User
from tests.contract.clients import MIB

FIRST, SECOND = HOSTS[:2]


def expect(seen: Any, wanted: Any) -> None:
    """Compare, where an assertion's rewriting is not at hand."""
    if seen != wanted:
        raise AssertionError(f"{seen!r}, and {wanted!r} was to be")


def boots_and_attaches(user: User) -> None:
    """Boot from an image by the stock command, attach and detach a volume by it."""
    image, volume = user.make_image(bytes(MIB)), user.make_volume()
    name = user.name("server")
    made = user.shell.ask(
        *("server", "create", "--image", image, "--flavor", "beside", "--nic", "none"),
        *("--wait", name),
    )
    server = made["id"]
    expect(made["status"], "ACTIVE")
    user.shell.run("server", "add", "volume", server, volume)
    user.until_volume(volume, "in-use")
    expect(user.listed(server), [volume])
    user.shell.run("server", "remove", "volume", server, volume)
    user.until_volume(volume, "available")
    expect(user.attachments(volume), [])
    user.remove([server], [volume])


def boots_from_volumes(user: User) -> None:
    """Boot from a volume that is there, and from one that Nova has made of an image."""
    image = user.make_image(bytes(MIB))
    root = user.make_volume(imageRef=image)
    server = user.make_server(root=root)
    expect(user.look(root)["status"], "in-use")
    device = {
        "boot_index": 0,
        "source_type": "image",
        "destination_type": "volume",
        "uuid": image,
        "volume_size": 1,
        "delete_on_termination": True,
    }
    asked = {"name": "made", "flavorRef": "beside", "networks": "none"}
    body = {"server": {**asked, "block_device_mapping_v2": [device]}}
    other = user.compute("POST", "/servers", body)["server"]["id"]
    user.until_server(other, "ACTIVE")
    (made,) = user.listed(other)
    expect(user.look(made)["status"], "in-use")
    user.remove([server, other], [root])
    gone = user.connection.block_storage.get(f"/volumes/{made}", raise_exc=False)
    expect(gone.status_code, 404)


def attaches_at_once(user: User) -> None:
    """Attach four volumes to one server at once, and detach them at once."""
    server = user.make_server(image=user.make_image(bytes(MIB)))
    volumes = [user.make_volume() for _ in range(4)]
    user.attach(server, *volumes)
    expect(user.listed(server), sorted(volumes))
    user.detach(server, *volumes)
    expect([user.attachments(volume) for volume in volumes], [[]] * 4)
    user.remove([server], volumes)


def shares_a_volume(user: User) -> None:
    """Attach one volume to two servers, and let go of it at one after the other."""
    kind = user.connection.block_storage.create_type(
        name=user.name("type"), extra_specs={"multiattach": "<is> True"}
    )
    volume = user.make_volume(volume_type=kind.name)
    image = user.make_image(bytes(MIB))
    servers = [user.make_server(image=image, host=host) for host in (FIRST, SECOND)]
    for server in servers:
        user.attach(server, volume)
        user.until(lambda server=server: user.listed(server), lambda seen: seen == [volume])
    user.until(lambda: user.on_hosts(volume), lambda seen: seen == [FIRST, SECOND])
    user.begin_detach(servers[0], volume)
    user.until(lambda: user.on_hosts(volume), lambda seen: seen == [SECOND])
    expect(user.look(volume)["status"], "in-use")
    user.detach(servers[1], volume)
    user.remove(servers, [volume])
    user.connection.block_storage.delete_type(str(kind.id))


def extends(user: User) -> None:
    """Make an attached volume larger."""
    server, volume = user.make_server(image=user.make_image(bytes(MIB))), user.make_volume()
    user.attach(server, volume)
    user.volume("POST", f"/volumes/{volume}/action", {"os-extend": {"new_size": 2}})
    expect(user.until_volume(volume, "in-use")["size"], 2)
    user.until(
        lambda: user.compute("GET", f"/servers/{server}/os-instance-actions")["instanceActions"],
        lambda seen: "extend_volume" in [one["action"] for one in seen],
    )
    user.detach(server, volume)
    user.remove([server], [volume])


def rebuilds(user: User) -> None:
    """Rebuild a server on its root volume with another image, at 2.93."""
    old, new = user.make_image(b"old!" * (MIB // 4)), user.make_image(b"new!" * (MIB // 4))
    root, data = user.make_volume(imageRef=old), user.make_volume()
    server = user.make_server(root=root)
    user.attach(server, data)
    user.act(server, "rebuild", {"imageRef": new}, version="2.93")
    user.until_server(server, "ACTIVE")
    seen = user.look(root)
    expect((seen["status"], seen["volume_image_metadata"]["image_id"]), ("in-use", new))
    expect(user.listed(server), sorted([root, data]))
    user.remove([server], [root, data])


def shelves(user: User) -> None:
    """Shelve a server on a root volume with another one; bring it back on another host."""
    root, data = user.make_volume(imageRef=user.make_image(bytes(MIB))), user.make_volume()
    server = user.make_server(root=root, host=FIRST)
    user.attach(server, data)
    user.act(server, "shelve")
    user.until_server(server, "SHELVED_OFFLOADED")
    expect([user.look(volume)["status"] for volume in (root, data)], ["reserved"] * 2)
    user.act(server, "unshelve", {"host": SECOND})
    user.until_server(server, "ACTIVE", host=SECOND)
    expect([user.on_hosts(volume) for volume in (root, data)], [[SECOND]] * 2)
    user.remove([server], [root, data])


def moves(user: User) -> None:
    """Move a server live, cold with a confirmation, and cold with a way back."""
    root, data = user.make_volume(imageRef=user.make_image(bytes(MIB))), user.make_volume()
    server = user.make_server(root=root, host=FIRST)
    user.attach(server, data)
    user.act(server, "os-migrateLive", {"host": SECOND, "block_migration": "auto"})
    user.until_server(server, "ACTIVE", host=SECOND)
    both_at(user, [root, data], SECOND)
    user.act(server, "migrate", {"host": FIRST})
    user.until_server(server, "VERIFY_RESIZE", host=FIRST)
    user.act(server, "confirmResize")
    user.until_server(server, "ACTIVE", host=FIRST)
    both_at(user, [root, data], FIRST)
    user.act(server, "migrate", {"host": SECOND})
    user.until_server(server, "VERIFY_RESIZE", host=SECOND)
    user.act(server, "revertResize")
    user.until_server(server, "ACTIVE", host=FIRST)
    both_at(user, [root, data], FIRST)
    user.remove([server], [root, data])


def both_at(user: User, volumes: list[str], host: str) -> None:
    """See volumes attached on one host alone, as soon as Nova has let go of the other one."""
    user.until(
        lambda: [user.on_hosts(volume) for volume in volumes],
        lambda seen: seen == [[host]] * len(volumes),
    )


def moves_volumes(user: User) -> None:
    """Move an attached volume to another pool, and give another one a type that is elsewhere."""
    server = user.make_server(image=user.make_image(bytes(MIB)))
    types = [
        user.connection.block_storage.create_type(
            name=user.name(pool), extra_specs={"volume_backend_name": pool}
        )
        for pool in POOLS
    ]
    moved, retyped = user.make_volume(), user.make_volume(volume_type=types[0].name)
    user.attach(server, moved, retyped)
    place: str = user.look(moved)["os-vol-host-attr:host"]
    pool = place.rpartition("#")[2]
    other = place.removesuffix(pool) + POOLS[pool == POOLS[0]]
    user.volume("POST", f"/volumes/{moved}/action", {"os-migrate_volume": {"host": other}})
    asked = {"new_type": types[1].name, "migration_policy": "on-demand"}
    user.volume("POST", f"/volumes/{retyped}/action", {"os-retype": asked})
    seen = [
        user.until(lambda volume=volume: user.look(volume), _has_arrived)
        for volume in (moved, retyped)
    ]
    places = [one["os-vol-host-attr:host"] for one in seen]
    expect(places, [other, place.removesuffix(pool) + POOLS[1]])
    expect([one["status"] for one in seen], ["in-use"] * 2)
    expect(seen[1]["volume_type"], types[1].name)
    expect(user.listed(server), sorted([moved, retyped]))
    user.detach(server, moved, retyped)
    user.remove([server], [moved, retyped])
    for kind in types:
        user.connection.block_storage.delete_type(str(kind.id))


def _has_arrived(seen: dict[str, Any]) -> bool:
    if seen["migration_status"] == "error":
        raise Failed(f"The volume was not moved: {seen}")
    return seen["migration_status"] == "success" and seen["status"] == "in-use"


STEPS = (
    boots_and_attaches,
    boots_from_volumes,
    attaches_at_once,
    shares_a_volume,
    extends,
    rebuilds,
    shelves,
    moves,
    moves_volumes,
)
