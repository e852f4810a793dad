"""What is done with Mooring's compute service on a real Cinder, step by step."""

from __future__ import annotations

from tests.beside.nova_story import attaches_at_once, boots_and_attaches, expect
from tests.beside.users import User
from tests.contract.clients import MIB


def extends(user: User) -> None:
    """Make a volume larger: Cinder's own driver refuses it attached, and does it detached."""
    server, volume = user.make_server(image=user.make_image(bytes(MIB))), user.make_volume()
    user.attach(server, volume)
    extend = {"os-extend": {"new_size": 2}}
    user.volume("POST", f"/volumes/{volume}/action", extend)
    user.until_volume(volume, "error_extending")
    reset = {"os-reset_status": {"status": "in-use", "attach_status": "attached"}}
    user.volume("POST", f"/volumes/{volume}/action", reset)
    user.detach(server, volume)
    user.volume("POST", f"/volumes/{volume}/action", extend)
    user.until(lambda: user.look(volume), lambda seen: seen["size"] == 2)
    user.until_volume(volume, "available")
    user.attach(server, volume)
    user.detach(server, volume)
    user.remove([server], [volume])


def rebuilds(user: User) -> None:
    """Rebuild a server on its root volume with another image (2.93; Cinder 3.68)."""
    old, new = user.make_image(b"old!" * (MIB // 4)), user.make_image(b"new!" * (MIB // 4))
    root, data = user.make_volume(imageRef=old), user.make_volume()
    server = user.make_server(root=root)
    user.attach(server, data)
    user.act(server, "rebuild", {"imageRef": new}, version="2.93")
    user.until_server(server, "ACTIVE")
    seen = user.look(root)
    expect((seen["status"], seen["volume_image_metadata"]["image_id"]), ("in-use", new))
    user.remove([server], [root, data])


def snapshots(user: User) -> None:
    """Make a snapshot of a volume and a volume of that, which a server gets."""
    volume = user.make_volume()
    body = {"snapshot": {"volume_id": volume, "name": user.name("snapshot")}}
    made = user.volume("POST", "/snapshots", body)["snapshot"]["id"]
    path = f"/snapshots/{made}"
    user.until(
        lambda: user.volume("GET", path)["snapshot"], lambda seen: seen["status"] == "available"
    )
    other = user.make_volume(snapshot_id=made)
    server = user.make_server(image=user.make_image(bytes(MIB)))
    user.attach(server, volume, other)
    user.detach(server, volume, other)
    user.volume("DELETE", path)
    user.until(
        lambda: user.connection.block_storage.get(path, raise_exc=False).status_code,
        lambda status: status == 404,
    )
    user.remove([server], [volume, other])


STEPS = (boots_and_attaches, attaches_at_once, extends, rebuilds, snapshots)
