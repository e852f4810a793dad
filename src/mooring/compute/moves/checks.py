"""What is seen of a server before it moves, however it does (facts/compute.md 1.5, 4.8, 4.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from mooring.compute.hosts import hosts
from mooring.compute.scheduling.reach import find_reach, refusal
from mooring.compute.servers import servers
from mooring.errors import Conflict, Invalid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session

    from mooring.compute.scheduling.reach import Reach
    from mooring.compute.service import Compute
    from mooring.compute.tables import BlockDevice, Host, Server
    from mooring.who import Who


async def look_at_volumes(
    compute: Compute, who: Who, server_id: str
) -> tuple[list[str], dict[str, list[str]]]:
    """Return the attachments of a server's volumes, and who reaches these. Raises NotFound."""
    await compute.store.read(lambda tx: servers.visible(tx, who, server_id).id)
    attached = await compute.volumes.attachments(None, server_id=server_id)
    volumes = sorted({one.volume_id for one in attached})
    return [one.id for one in attached], await find_reach(compute.volumes, volumes)


def check_wish(tx: Session, compute: Compute, source: Host, wished: str | None) -> None:
    """Raise Invalid unless a server may be asked to go to this host; None is any other one."""
    if wished is None:
        return
    if wished == source.name:
        raise Invalid(
            f"Unable to migrate the instance to host {wished}: it runs there already. Choose "
            "another host, or none."
        )
    host = hosts.look(tx, wished)
    if host is None:
        raise Invalid(f"Compute host {wished} could not be found.")
    if not hosts.is_up(host, compute.clock.now(), compute.settings.host_down_s):
        raise Invalid(
            f"The compute service of host {wished} is unavailable at this time. Nothing was "
            "changed; choose another host."
        )


def check_reach(tx: Session, source: str | None, wished: str | None, reach: Reach) -> None:
    """Raise Invalid where no host that may be chosen reaches all of a server's volumes."""
    if not reach:
        return
    others = [name for name in hosts.names(tx) if name != source]
    destinations = others if wished is None else [wished]
    if any(not refusal(reach, name) for name in destinations):
        return
    pools = " and ".join(
        f"pool {name} is reached by {', '.join(names)} only" for name, names in reach.items()
    )
    raise Invalid(
        f"The instance cannot keep its volumes on {wished or 'any other host'}: {pools}. Nothing "
        "was changed."
    )


def check_block_migration(server: Server, *, wanted: bool | Literal["auto"]) -> None:
    """Raise Invalid unless what goes along of a running server's disks is what was asked for.

    "auto" is as its disks are (facts/compute.md 1.5): those on its host are copied.
    """
    if wanted is True and not server.image_id and not server.swap_mib:
        raise Invalid(
            f"All disks of instance {server.id} are volumes, and none is on its host: there is "
            "nothing to copy by block migration. Nothing was changed; migrate it without."
        )
    if wanted is False and (server.image_id or server.swap_mib):
        what = "root" if server.image_id else "swap"
        raise Invalid(
            f"Instance {server.id} has its {what} disk on its host, which goes along by block "
            "migration only. Nothing was changed; ask for that (openstack server migrate "
            "--live-migration --block-migration)."
        )


def check_copied(tx: Session, server: Server, source: Host, wished: str | None) -> None:
    """Raise Invalid where a server's own disks cannot be copied to the host that is asked for."""
    if server.ephemeral_gib:
        raise Invalid(
            f"Instance {server.id} has ephemeral disks, which are not copied. Nothing was changed; "
            "only its root and swap disks could go along."
        )
    host = hosts.look(tx, wished) if server.image_id and wished else None
    if host is not None and host.hypervisor != source.hypervisor:
        raise Invalid(
            f"Host {host.name} runs guests with {host.hypervisor}, and the root disk of instance "
            f"{server.id} is made for {source.hypervisor}. Nothing was changed; choose a host "
            "with the same hypervisor."
        )


def check_volumes(server: Server, rows: Sequence[BlockDevice]) -> None:
    """Raise Conflict unless each volume can be given to another host now."""
    for row in rows:
        if row.state != "attached":
            raise Conflict(
                f"Volume {row.volume_id} of instance {server.id} is {row.state}. Nothing was "
                "changed; wait until it is attached or gone."
            )


def check_gate(tx: Session, rows: Sequence[BlockDevice], *, of_dead_host: bool = False) -> None:
    """Raise Conflict while some host is too old to be given a server's volumes (specs 001).

    Who leaves its host gets attachments, and those need every host. A dead one does not count where
    its servers are taken over: it could be neither upgraded nor removed before.
    """
    if rows:
        hosts.require_attachments(tx, but_dead=of_dead_host)
