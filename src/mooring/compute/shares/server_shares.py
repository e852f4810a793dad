"""Shares of a server: what a user may ask for, and when (facts/compute.md 7.1).

Policy is checked by the route. Errors: NotFound, Conflict for states, Forbidden while a host is too
old, Invalid for a tag that no guest can have.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from msgspec import Struct

from mooring.agent_api.guest_shares import GUEST_SHARES
from mooring.clients.placement import has_trait
from mooring.compute.actions import actions
from mooring.compute.hosts import hosts
from mooring.compute.servers import servers, states
from mooring.compute.shares import access_rules, doors, folders, mappings, share_places
from mooring.compute.shares.sagas.attach_share import ATTACH_SHARE, AttachShare
from mooring.compute.shares.sagas.detach_share import DETACH_SHARE, DetachShare
from mooring.compute.tables import ShareMapping
from mooring.errors import Conflict, Forbidden, Invalid, NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session

    from mooring.clients.share import Share
    from mooring.compute.service import Compute
    from mooring.compute.tables import Host, Server
    from mooring.who import Who

TAG_BYTES = 36
"""What virtiofs takes."""
SHARES_VERSION = 67
"""From this service version on hosts are asked to give shares to guests (facts/compute.md 12.1)."""
VIRTIOFS, SHARED_MEMORY = "COMPUTE_STORAGE_VIRTIO_FS", "COMPUTE_MEM_BACKING_FILE"
PAGE_SIZE = "hw:mem_page_size"
"""The extra spec with which a guest's memory is shared without `SHARED_MEMORY`."""

_ATTACH, _DETACH = "attach_share", "detach_share"
_STOPPED = frozenset({"stopped"})
_MAY_DETACH = frozenset({"stopped", "error"})


class NewShare(Struct, frozen=True, kw_only=True):
    """What POST asks for; without a tag the share's id is the tag."""

    share_id: str
    tag: str


class _Found(Struct, frozen=True):
    share: Share
    export: str


def page(tx: Session, who: Who, server_id: str) -> Sequence[ShareMapping]:
    """Return the shares of a server, in the order in which they were attached."""
    servers.visible(tx, who, server_id)
    return mappings.of_server(tx, server_id)


def visible(tx: Session, who: Who, server_id: str, share_id: str) -> ShareMapping:
    """Return the mapping by which a server has a share. Raises NotFound."""
    servers.visible(tx, who, server_id)
    row = mappings.find_share(tx, server_id, share_id)
    if row is None:
        raise NotFound(f"Instance {server_id} has no share {share_id}.")
    return row


async def attach(compute: Compute, who: Who, server_id: str, wanted: NewShare) -> ShareMapping:
    """Record the wish and its saga at once. The checks are in the order of facts/compute.md 7.1."""
    _check_tag(wanted.tag)
    server = await compute.store.read(lambda tx: _check_server(tx, compute, who, server_id))
    found = await _find_share(compute, who, wanted.share_id, server.project_id)

    def begin(tx: Session) -> ShareMapping:
        server = _check_server(tx, compute, who, server_id)
        _check_unused(tx, server, wanted)
        row = _add(tx, compute, server, wanted, found)
        now, saga_id = compute.clock.now(), str(uuid.uuid4())
        notes = AttachShare(
            server_id=server_id,
            action_id=actions.begin(tx, server_id, _ATTACH, who, now, saga_id=saga_id),
            share_id=row.share_id,
            folder=folders.folder_of(row, server.host or ""),
        )
        compute.sagas.start(tx, ATTACH_SHARE, notes, who=who, saga_id=saga_id)
        return row

    return await servers.submit(compute, _ATTACH, server_id, begin)


async def detach(compute: Compute, who: Who, server_id: str, share_id: str) -> None:
    """Record the wish and its saga at once. Raises NotFound, Conflict unless the server is off."""

    def begin(tx: Session) -> None:
        server = servers.visible(tx, who, server_id)
        if server.vm_state not in _MAY_DETACH:
            raise states.refusal(server_id, _DETACH, "vm_state", server.vm_state)
        row = visible(tx, who, server_id, share_id)
        now, saga_id = compute.clock.now(), str(uuid.uuid4())
        places = share_places.of_mapping(tx, row.id)
        notes = DetachShare(
            server_id=server_id,
            action_id=actions.begin(tx, server_id, _DETACH, who, now, saga_id=saga_id),
            mapping_id=row.id,
            share_id=share_id,
            host=server.host,
            status=row.status,
            folders=[folders.folder_of(row, place.host) for place in places],
        )
        compute.sagas.start(tx, DETACH_SHARE, notes, who=who, saga_id=saga_id)
        mappings.change(tx, row.id, now, status="detaching")

    await servers.submit(compute, _DETACH, server_id, begin)


def can_have_shares(traits: Sequence[str], extra_specs: dict[str, str]) -> bool:
    """Whether a host with these traits gives shares to a server with these extra specs."""
    shares_memory = has_trait(traits, SHARED_MEMORY) or bool(extra_specs.get(PAGE_SIZE))
    return has_trait(traits, VIRTIOFS) and shares_memory


def _check_tag(tag: str) -> None:
    if len(tag.encode()) > TAG_BYTES:
        raise Invalid(
            f"The tag of a share has at most {TAG_BYTES} bytes, since virtiofs takes no more. "
            "Nothing was attached; choose a shorter one."
        )


def _check_server(tx: Session, compute: Compute, who: Who, server_id: str) -> Server:
    server = servers.visible(tx, who, server_id)
    if server.vm_state not in _STOPPED:
        raise states.refusal(server_id, _ATTACH, "vm_state", server.vm_state)
    if older := hosts.tell_older(tx, SHARES_VERSION):
        raise Forbidden(
            f"{older} and cannot give shares to servers. Nothing was attached; upgrade or remove "
            "what is too old."
        )
    now, down_after_s = compute.clock.now(), compute.settings.host_down_s
    _check_traits(server, hosts.require_up(tx, server.host, now, down_after_s))
    return server


def _check_traits(server: Server, host: Host) -> None:
    if can_have_shares(host.traits, server.extra_specs):
        return
    if not has_trait(host.traits, VIRTIOFS):
        why = f"it lacks the trait {VIRTIOFS}"
    else:
        why = f"it lacks the trait {SHARED_MEMORY}, and the flavor has no {PAGE_SIZE}"
    raise Conflict(
        f"Host {host.name} cannot give a share to instance {server.id}: {why}. Nothing was "
        "attached; migrate the server to another host first."
    )


async def _find_share(compute: Compute, who: Who, share_id: str, project_id: str) -> _Found:
    """Look at a share of the server's project as its user sees it. Raises NotFound, Conflict.

    One that another project has made public is seen and not given: hosts are let in to write, as
    administrators, and its owner could not delete it meanwhile.
    """
    share = await compute.shares.show(who, share_id)
    if share.project_id != project_id:
        raise NotFound(
            f"Project {project_id} of the server has no share {share_id}. Nothing was changed; "
            "attach a share of the same project."
        )
    if share.status != "available":
        raise Conflict(
            f"Share {share_id} is {share.status}; only one that is available can be attached. "
            "Nothing was changed."
        )
    listed = await compute.shares.export_locations(who, share_id)
    # Whoever asks, no guest's host is let in at those that only administrators see.
    exports = [one for one in listed if not one.is_admin_only]
    if not exports:
        raise Conflict(f"Share {share_id} has no export location. Nothing was changed.")
    if share.protocol not in access_rules.PROTOCOLS:
        raise Conflict(
            f"Share {share_id} has protocol {share.protocol}; servers take shares of NFS and "
            "CEPHFS only. Nothing was changed."
        )
    chosen = next((one for one in exports if one.preferred), exports[0])
    return _Found(share, chosen.path)


def _check_unused(tx: Session, server: Server, wanted: NewShare) -> None:
    rows = mappings.of_server(tx, server.id)
    if len(rows) >= GUEST_SHARES:
        raise Conflict(
            f"Instance {server.id} has {len(rows)} shares, and a guest has {GUEST_SHARES} at "
            "most. Nothing was attached; detach another one first."
        )
    for row in rows:
        if row.share_id == wanted.share_id:
            raise Conflict(
                f"Share {wanted.share_id} is attached to instance {server.id} already, with tag "
                f"{row.tag} and status {row.status}. Nothing was changed."
            )
        if row.tag == wanted.tag:
            raise Conflict(
                f"Instance {server.id} has share {row.share_id} with tag {row.tag}. Nothing was "
                "attached; choose another tag."
            )


def _add(
    tx: Session, compute: Compute, server: Server, wanted: NewShare, found: _Found
) -> ShareMapping:
    now, protocol = compute.clock.now(), found.share.protocol
    row = ShareMapping(
        id=str(uuid.uuid4()),
        server_id=server.id,
        share_id=wanted.share_id,
        tag=wanted.tag,
        status="attaching",
        export_location=found.export,
        protocol=protocol,
        access_to=doors.identity_of(found.share) if protocol == access_rules.CEPHFS else "",
        created_at=now,
        updated_at=now,
    )
    return mappings.add(tx, row)
