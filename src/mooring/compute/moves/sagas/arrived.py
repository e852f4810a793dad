"""A guest that a cold move has begun at its new host, which could not say so before it was reset.

The row of its server still names the host that it left. So the new one is asked, once no call of
the move comes late there: where it has the guest, that has all that was ever written, also where it
is off by now, as the guest was off where it was before anything was begun elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from mooring.compute.flavors import sizes
from mooring.compute.flavors.sizes import Size
from mooring.compute.hosts import guests, hosts
from mooring.compute.moves import migrations
from mooring.compute.servers import states
from mooring.compute.tables import Flavor, Server
from mooring.saga.define import Together

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.agent_api.servers import Guest
    from mooring.compute.service import Compute
    from mooring.compute.tables import Migration
    from mooring.saga.define import Run

_RUNS = frozenset({"running", "paused"})


class _OnItsWay(Struct, frozen=True):
    """A server that was to be ended at one host and begun at another one, at no other time.

    `size` is the one that it has there, None where that is the one it has.
    """

    source: str
    destination: str
    size: Size | None


async def place(run: Run[Compute], server_id: str) -> Together | None:
    """Say that a server is where its guest has come; nothing where it has not.

    Raises Unavailable while one of both hosts does not tell: nothing is ended there by then. One
    that was forced down has nothing, and what it has all the same it owes.
    """
    way = await run.service.store.read(lambda tx: _find(tx, server_id))
    if way is None:
        return None
    there = await guests.claim_unless_lost(run, way.destination, server_id)
    here = await guests.claim_unless_lost(run, way.source, server_id)
    if there is None or (here is not None and here.state in _RUNS):
        return None
    size = None if way.size is None else _as_it_is(way.size, there)
    return Together(lambda tx: _place(tx, run, server_id, way.destination, size))


def _find(tx: Session, server_id: str) -> _OnItsWay | None:
    """Return such a server; None from the moment on from which its row tells where it is."""
    row = migrations.left_over(tx, server_id)
    if row is None or row.type not in {migrations.COLD, migrations.RESIZE}:
        return None
    server, first, second = tx.get_one(Server, server_id), row.source, row.destination
    if second in {None, first}:
        return None
    if row.status == "migrating" and server.host == first:
        return _OnItsWay(first, second or "", _new_size(tx, server, row))
    if row.status == "reverting" and server.host == second:
        former = None if row.old_size is None else Size(**row.old_size)
        return _OnItsWay(second or "", first, former)
    return None


def _new_size(tx: Session, server: Server, row: Migration) -> Size | None:
    """Return the size that a server was to get: by its flavor, if that is still there."""
    if row.new_flavor_id == server.flavor_id:
        return None
    flavor = tx.get(Flavor, row.new_flavor_id)
    if flavor is not None:
        return sizes.of_flavor(flavor)
    return replace(sizes.of_server(server), flavor_id=row.new_flavor_id)


def _as_it_is(size: Size, guest: Guest) -> Size:
    """Return a size with what the guest was made with: its flavor may have changed since."""
    name = guest.metadata.get("flavor", size.flavor_name)
    return replace(size, flavor_name=name, vcpus=guest.vcpus, memory_mib=guest.memory_mib)


def _place(tx: Session, run: Run[Compute], server_id: str, name: str, size: Size | None) -> None:
    host = hosts.find(tx, name)
    values: dict[str, Any] = {"host": name} | ({"zone": host.zone} if host else {})
    values |= {} if size is None else size.columns()
    states.change(tx, server_id, run.now(), **values)
